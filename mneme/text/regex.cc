#define PCRE2_CODE_UNIT_WIDTH 8
#include "mneme/text/regex.h"

#include <pcre2.h>

#include "mneme/base/error.h"
#include "mneme/text/oniguruma.h"
#include "mneme/text/utf8.h"

namespace mneme {
namespace {

constexpr std::uint32_t kMatchLimit = 10'000'000;   // backtracking steps of one match
constexpr std::uint32_t kHeapLimitKiB = 64 * 1024;  // interpreter only
constexpr std::size_t kMaxPatternBytes = 128 * 1024;
constexpr std::size_t kMaxJitStackBytes = 8 * 1024 * 1024;

struct CompileContext {
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  CompileContext() {
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(context, kMaxPatternBytes);
  }
  ~CompileContext() { pcre2_compile_context_free(context); }
};

/// The result block, the JIT's stack and the limits, one set for each thread.
struct MatchScratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, kMaxJitStackBytes, nullptr);

  MatchScratch() {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKiB);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~MatchScratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;
};

MatchScratch& match_scratch() {
  thread_local MatchScratch scratch;
  return scratch;
}

std::string error_text(int code) {
  char text[256];
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

pcre2_code* compile(const std::string& pattern, int& error, PCRE2_SIZE& offset) {
  // Oniguruma's ^ and $ match at every line.
  constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  const CompileContext context;
  return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &offset,
                       context.context);
}

}  // namespace

Regex Regex::from_oniguruma(const std::string& pattern) { return Regex(oniguruma_to_pcre2(pattern)); }

Regex::Regex(std::string pattern) : pattern_(std::move(pattern)) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = compile(pattern_, error, offset);
  check(code != nullptr, ErrorKind::kUnsupported, "the regular expression \"{}\" cannot be used: {} at byte {}",
        regex_excerpt(pattern_), error_text(error), offset);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without a JIT the interpreter does the same, slower
  code_ = std::shared_ptr<const void>(
      code, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
}

void Regex::find_all(std::string_view text, std::vector<ByteRange>& matches) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  MatchScratch& scratch = match_scratch();
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(scratch.data);
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t last_end = kNone;
  for (std::size_t start = 0; start <= text.size();) {
    const int rc = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start, PCRE2_NO_UTF_CHECK,
                               scratch.data, scratch.context);
    if (rc == PCRE2_ERROR_NOMATCH) return;
    check(rc >= 0, ErrorKind::kInvalidArgument, "the regular expression \"{}\" gave up at byte {} of a text of {}: {}",
          regex_excerpt(pattern_), start, text.size(), error_text(rc));
    const auto [begin, end] = ByteRange{found[0], found[1]};
    check(begin >= (last_end == kNone ? 0 : last_end) && begin <= end, ErrorKind::kUnsupported,
          "the regular expression \"{}\" matches backwards", regex_excerpt(pattern_));
    if (begin == end && end == last_end) {
      start += start < text.size() ? read_code_point(text, start).length : 1;
      continue;
    }
    matches.push_back({begin, end});
    start = last_end = end;
  }
}

bool is_valid_regex(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = compile(pattern, error, offset);
  pcre2_code_free(code);
  return code != nullptr;
}

void find_all_literal(std::string_view text, std::string_view literal, std::vector<ByteRange>& matches) {
  if (literal.empty()) return;
  for (std::size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + literal.size())) {
    matches.push_back({at, at + literal.size()});
  }
}

}  // namespace mneme
