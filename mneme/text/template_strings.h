#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/text/template_run.h"
#include "mneme/text/template_value.h"

/// What string methods and string filters share.
namespace mneme::jinja {

/// Bytes start..stop of a text, from bounds in code points as Python's optional arguments give them.
struct Range {
  std::size_t start = 0;
  std::size_t stop = 0;
  bool valid = true;  ///< false where start is past stop, so that not even "" is found
};
Range code_point_range(std::string_view text, const Value& start, const Value& stop);

/// str.split: by white space where there is no separator. A negative `max_splits` is no limit.
std::vector<Value> split(Run& run, std::string_view text, const std::optional<std::string>& separator,
                         std::int64_t max_splits, bool from_right);
/// str.replace; a negative `count` is no limit.
std::string replace(Run& run, std::string_view text, std::string_view old, std::string_view with, std::int64_t count);
std::int64_t count_occurrences(std::string_view text, std::string_view needle);
/// str.center
std::string centered(Run& run, std::string_view text, std::int64_t width, std::string_view fill = " ");

bool all_alphanumeric(std::string_view text);
bool all_alphabetic(std::string_view text);
bool all_ascii(std::string_view text);
bool all_decimal(std::string_view text);
bool all_digits(std::string_view text);
bool all_numeric(std::string_view text);
bool all_printable(std::string_view text);
bool all_space(std::string_view text);
bool all_lower(std::string_view text);
bool all_upper(std::string_view text);
bool is_title(std::string_view text);
bool is_identifier(std::string_view text);

}  // namespace mneme::jinja
