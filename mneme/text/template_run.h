#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mneme/text/template_object.h"
#include "mneme/text/template_value.h"

namespace mneme::jinja {

/// What one rendering may use up. Templates come with model files, so none of them is trusted to end by itself.
struct Limits {
  std::uint64_t steps = 10'000'000;          ///< evaluated nodes, blocks of 64 scanned bytes; a new scope is ten
  std::size_t n_bytes_built = 512ULL << 20;  ///< all strings and lists that were ever built
  std::size_t n_bytes_output = 64ULL << 20;  ///< the rendered text, or any captured part of it
  int depth = 1000;                          ///< nested evaluations, through macros too
  std::int64_t range_length = 100'000;       ///< as Jinja's sandbox
};

/// The variables of one block of a template, behind them those of the blocks around it.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::map<std::string, Value, std::less<>> variables;
};

/// One rendering: its limits, its variables and its output. Not shared between threads.
class Run {
 public:
  explicit Run(std::optional<std::tm> now = std::nullopt, Limits limits = {});
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  // Limits. Each throws Fault where its limit is passed.
  void step(std::uint64_t n = 1);
  void scan(std::size_t n_bytes) { step(n_bytes / 64); }
  void build(std::size_t n_bytes);
  /// `times` times `n` values, as a template asked for; negative is none.
  void build_items(std::int64_t times, std::size_t n = 1);
  const Limits& limits() const { return limits_; }

  /// Counts one nested evaluation as long as it lives.
  class Level {
   public:
    Level(Run& run, int line);
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --run_.depth_; }

   private:
    Run& run_;
  };

  int line() const { return line_; }

  // Values whose memory counts against the limits.
  Value text(std::string text);
  Value list(std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::kList);
  Value generator(std::vector<Value> items, std::string type_name = "generator");
  Value dict(Dict dict);
  /// Keeps what could be part of a cycle, and empties it when the run ends.
  std::shared_ptr<Namespace> new_namespace(Dict attributes);
  const std::shared_ptr<Scope>& capture_scope();

  // Variables.
  Value lookup(const std::string& name) const;
  void assign(const std::string& name, Value value) { scope_->variables.insert_or_assign(name, std::move(value)); }
  const std::shared_ptr<Scope>& root_scope() const { return root_; }

  /// Makes a scope inside of `parent` (the current one by default) the current one as long as it lives.
  class Inside {
   public:
    explicit Inside(Run& run) : Inside(run, run.scope_) {}
    Inside(Run& run, std::shared_ptr<Scope> parent);
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() { run_.scope_ = std::move(outer_); }

   private:
    Run& run_;
    std::shared_ptr<Scope> outer_;
  };

  // Output.
  void write(std::string_view text);
  std::string take_output() { return std::move(*output_); }

  /// Sends what is written into a text of its own as long as it lives.
  class Capture {
   public:
    explicit Capture(Run& run) : run_(run), outer_(std::exchange(run.output_, &text_)) {}
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    ~Capture() { run_.output_ = outer_; }
    std::string take() { return std::move(text_); }

   private:
    Run& run_;
    std::string text_;
    std::string* outer_;
  };

  /// A `break` or `continue` on its way to its loop; statements behind it are skipped.
  enum class Jump { kNone, kBreak, kContinue };
  Jump jump = Jump::kNone;

  /// Local time, as strftime_now shows it.
  std::tm now() const;

 private:
  Limits limits_;
  std::optional<std::tm> now_;
  std::uint64_t steps_ = 0;
  std::size_t n_bytes_built_ = 0;
  int depth_ = 0;
  int line_ = 1;
  std::shared_ptr<Scope> root_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Scope>> captured_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::string text_;
  std::string* output_ = &text_;
};

/// Text that is built piece by piece and counts against the limits while it grows.
class TextBuilder {
 public:
  explicit TextBuilder(Run& run) : run_(run) {}

  TextBuilder& append(std::string_view piece) {
    run_.build(piece.size());
    text_ += piece;
    return *this;
  }
  TextBuilder& repeat(std::string_view piece, std::int64_t times);
  std::string take() { return std::move(text_); }

 private:
  Run& run_;
  std::string text_;
};

}  // namespace mneme::jinja
