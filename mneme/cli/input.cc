#include "mneme/cli/input.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "mneme/base/error.h"
#include "mneme/base/printable.h"

namespace mneme::cli {

std::string read_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  check(!std::filesystem::is_directory(path), ErrorKind::kIo, "{}: is a folder, not a text file", path);
  std::ifstream file(path, std::ios::binary);
  check(file.is_open(), ErrorKind::kIo, "{}: there is no such file, or it may not be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::int64_t> parse_numbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  const auto skip_spaces = [&] { text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size())); };
  for (skip_spaces(); !text.empty(); skip_spaces()) {
    const std::string_view rest = text;
    std::int64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    skip_spaces();
    const bool goes_on = text.starts_with(',');
    check(problem == std::errc() && (goes_on || text.empty()), ErrorKind::kInvalidArgument,
          "\"{}\" is not a list of whole numbers such as 1,2,3", printable(rest));
    numbers.push_back(number);
    if (!goes_on) break;
    text.remove_prefix(1);
    check(text.find_first_not_of(" \t\r\n") != text.npos, ErrorKind::kInvalidArgument,
          "\"{}\" ends with a comma where a number is missing", printable(rest));
  }
  return numbers;
}

}  // namespace mneme::cli
