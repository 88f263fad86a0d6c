#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mneme/text/byte_alphabet.h"
#include "mneme/text/byte_token.h"
#include "mneme/text/pattern.h"
#include "mneme/text/space_cleanup.h"
#include "mneme/text/token_decoder.h"
#include "mneme/text/utf8.h"

namespace mneme {

/// A stage that needs its tokens whole.
class WholeTokenStage : public DecoderStage {
 public:
  using DecoderStage::DecoderStage;
  void part(std::string_view text) final { token_ += text; }
  void end_token() final { token(std::exchange(token_, {})); }

 protected:
  virtual void token(std::string text) = 0;
  void pass_on(std::string_view text) {
    next_->part(text);
    next_->end_token();
  }

 private:
  std::string token_;
};

class FuseStage final : public DecoderStage {
 public:
  using DecoderStage::DecoderStage;
  void part(std::string_view text) override { next_->part(text); }
  void end_token() override {}
  void finish() override {
    next_->end_token();
    next_->finish();
  }
};

/// Byte characters back to bytes. All tokens become one, whose invalid bytes become U+FFFD.
class ByteLevelStage final : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  void finish() override {
    next_->part(to_valid_utf8(bytes_));
    next_->end_token();
    next_->finish();
  }

 protected:
  void token(std::string text) override {
    ByteAlphabet::instance().append_bytes(text, bytes_);
    // Only the last character can still be incomplete.
    std::size_t certain = bytes_.size();
    for (std::size_t back = 1; back <= 3 && back <= bytes_.size(); ++back) {
      const CodePoint c = read_code_point(bytes_, bytes_.size() - back);
      if (c.cut_off && c.length == back) certain = bytes_.size() - back;
    }
    next_->part(to_valid_utf8(std::string_view(bytes_).substr(0, certain)));
    bytes_.erase(0, certain);
  }

 private:
  std::string bytes_;
};

/// Tokens <0x00> to <0xFF> back to bytes. A run of them that is not UTF-8 becomes one U+FFFD for each.
class ByteFallbackStage final : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  void finish() override {
    flush();
    next_->finish();
  }

 protected:
  void token(std::string text) override {
    if (const auto byte = byte_of_token(text)) {
      run_ += *byte;
    } else {
      flush();
      pass_on(text);
    }
  }

 private:
  void flush() {
    if (run_.empty()) return;
    if (to_valid_utf8(run_) == run_) {
      pass_on(run_);
    } else {
      for (std::size_t i = 0; i < run_.size(); ++i) pass_on("\uFFFD");
    }
    run_.clear();
  }

  std::string run_;
};

/// Spaces for the metaspace; the first token loses its metaspaces if the encoder may have put one there.
class MetaspaceStage final : public DecoderStage {
 public:
  MetaspaceStage(std::string replacement, bool prepended, DecoderStage* next)
      : DecoderStage(next), replacement_(std::move(replacement)), dropping_(prepended) {}

  void part(std::string_view text) override {
    std::string out;
    for_each_code_point(text, [&](char32_t, std::size_t begin, std::size_t end) {
      const std::string_view c = text.substr(begin, end - begin);
      if (c != replacement_) {
        out += c;
      } else if (!dropping_) {
        out += ' ';
      }
    });
    next_->part(out);
  }
  void end_token() override {
    dropping_ = false;
    next_->end_token();
  }

 private:
  std::string replacement_;
  bool dropping_;
};

/// Removes up to `start` leading characters of each token that equal `content`.
class StripStartStage final : public DecoderStage {
 public:
  StripStartStage(std::string content, std::size_t start, DecoderStage* next)
      : DecoderStage(next), content_(std::move(content)), start_(start), left_(start) {}

  void part(std::string_view text) override {
    while (left_ > 0 && !text.empty()) {
      if (!text.starts_with(content_)) {
        left_ = 0;
        break;
      }
      text.remove_prefix(content_.size());
      --left_;
    }
    next_->part(text);
  }
  void end_token() override {
    left_ = start_;
    next_->end_token();
  }

 private:
  std::string content_;
  std::size_t start_, left_;
};

class StripStopStage final : public WholeTokenStage {
 public:
  StripStopStage(std::string content, std::size_t stop, DecoderStage* next)
      : WholeTokenStage(next), content_(std::move(content)), stop_(stop) {}

 protected:
  void token(std::string text) override {
    for (std::size_t i = 0; i < stop_ && text.ends_with(content_); ++i) text.resize(text.size() - content_.size());
    pass_on(text);
  }

 private:
  std::string content_;
  std::size_t stop_;
};

class ReplaceStage final : public WholeTokenStage {
 public:
  ReplaceStage(std::shared_ptr<const Pattern> pattern, std::string content, DecoderStage* next)
      : WholeTokenStage(next), pattern_(std::move(pattern)), content_(std::move(content)) {}

 protected:
  void token(std::string text) override { pass_on(pattern_->replace_all(text, content_, SIZE_MAX)); }

 private:
  std::shared_ptr<const Pattern> pattern_;
  std::string content_;
};

/// Tokens without the prefix begin a word.
class WordPieceStage final : public WholeTokenStage {
 public:
  WordPieceStage(std::string prefix, bool cleanup, DecoderStage* next)
      : WholeTokenStage(next), prefix_(std::move(prefix)), cleanup_(cleanup) {}

 protected:
  void token(std::string text) override {
    if (std::exchange(first_, false)) {
      // The first token stays as it is.
    } else if (text.starts_with(prefix_)) {
      text.erase(0, prefix_.size());
    } else {
      text.insert(0, 1, ' ');
    }
    pass_on(cleanup_ ? clean_up_word_piece(std::move(text)) : text);
  }

 private:
  std::string prefix_;
  bool cleanup_;
  bool first_ = true;
};

/// The end-of-word suffix becomes a space, but for the last token's.
class BpeSuffixStage final : public WholeTokenStage {
 public:
  BpeSuffixStage(std::string suffix, DecoderStage* next) : WholeTokenStage(next), suffix_(std::move(suffix)) {}
  void finish() override {
    flush("");
    next_->finish();
  }

 protected:
  void token(std::string text) override {
    flush(" ");
    held_back_ = std::move(text);
  }

 private:
  void flush(std::string_view replacement) {
    if (held_back_) pass_on(suffix_.replace_all(*held_back_, replacement, SIZE_MAX));
    held_back_.reset();
  }

  Pattern suffix_;
  std::optional<std::string> held_back_;
};

/// What a tokenizer without a decoder does.
class JoinWithSpacesStage final : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;

 protected:
  void token(std::string text) override {
    if (!std::exchange(first_, false)) next_->part(" ");
    pass_on(text);
  }

 private:
  bool first_ = true;
};

/// Spaces that a tokenizer put before punctuation and contractions are removed.
class SpaceCleanupStage final : public DecoderStage {
 public:
  using DecoderStage::DecoderStage;
  void part(std::string_view text) override {
    text_ += text;
    const std::size_t certain = certain_before_cleanup(text_);
    next_->part(clean_up_spaces(text_.substr(0, certain)));
    text_.erase(0, certain);
  }
  void end_token() override {}
  void finish() override {
    next_->part(clean_up_spaces(std::move(text_)));
    next_->end_token();
    next_->finish();
  }

 private:
  std::string text_;
};

/// The last stage.
class CollectStage final : public DecoderStage {
 public:
  explicit CollectStage(std::string& text) : DecoderStage(nullptr), text_(text) {}
  void part(std::string_view text) override { text_ += text; }
  void end_token() override {}
  void finish() override {}

 private:
  std::string& text_;
};

}  // namespace mneme
