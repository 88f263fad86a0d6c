#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <concepts>
#include <string>

#include "mneme/base/printable.h"
#include "mneme/cli/exit_code.h"

namespace mneme::cli {

/// All of `text` as a number. CLI11's own conversion takes "" for a number, "0x10" for 16 and 10^20 for 2^63 - 1.
/// Throws UsageError that names the flag and says what it wants.
template <class T>
T parse_number(const std::string& flag, const std::string& text) {
  constexpr const char* kWanted = std::floating_point<T>      ? "a number"
                                  : std::unsigned_integral<T> ? "a whole number, 0 or more"
                                                              : "a whole number";
  T number{};
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  if (problem == std::errc::result_out_of_range) {
    throw UsageError(fmt::format("{} is {}, which is past all that it can be", flag, printable(text)));
  }
  if (problem != std::errc() || stop != end) {
    throw UsageError(fmt::format("{} must be {}, it is \"{}\"", flag, kWanted, printable(text)));
  }
  return number;
}

/// An option of one number; `member` is a T or a std::optional<T>.
template <class T, class Member>
CLI::Option* add_number(CLI::App& app, const std::string& flag, Member& member, const std::string& what) {
  const auto take = [flag, &member](const std::string& text) { member = parse_number<T>(flag, text); };
  return app.add_option_function<std::string>(flag, take, what)->type_name("N");
}

}  // namespace mneme::cli
