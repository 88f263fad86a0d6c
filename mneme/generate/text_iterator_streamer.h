#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "mneme/generate/streamer.h"

namespace mneme {

/// Text of one sequence for another thread than the one that generates: hand `callback()` to GenerateOptions::on_token
/// there, call `end()` behind it, and read here with next() until there is nothing more.
class TextIteratorStreamer {
 public:
  explicit TextIteratorStreamer(const Tokenizer& tokenizer, DecodeOptions options = {.skip_special_tokens = true})
      : streamer_(
            tokenizer, [this](std::string_view piece) { push(std::string(piece)); }, options) {}

  /// The streamer must outlive it.
  std::function<void(std::int64_t, std::int64_t)> callback() { return streamer_.callback(); }

  /// No text follows. To be called even where generation throws, or the reader waits for ever.
  void end() {
    streamer_.end();
    push(std::nullopt);
  }

  /// The next piece, whole characters, as soon as there is one; nothing at the end, then and ever after.
  std::optional<std::string> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !pieces_.empty(); });
    std::optional<std::string> piece = pieces_.front();
    if (piece) pieces_.pop_front();
    return piece;
  }

 private:
  void push(std::optional<std::string> piece) {
    {
      const std::lock_guard lock(mutex_);
      pieces_.push_back(std::move(piece));
    }
    changed_.notify_one();
  }

  TextStreamer streamer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::optional<std::string>> pieces_;
};

}  // namespace mneme
