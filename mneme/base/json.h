#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace mneme {

/// Insertion order is kept: chat templates print it, and error messages quote it.
using Json = nlohmann::ordered_json;

/// A key that an object repeats: its last value counts (as in Python), or it is an error.
enum class RepeatedKeys { kKeepLast, kRefuse };

/// Parses UTF-8 JSON text, in linear time. `name` is what an error calls the text (a path, a flag).
/// Throws Error(kCorruptData) with byte offset, or when the nesting is deeper than 512.
Json parse_json(std::string_view text, std::string_view name, RepeatedKeys repeated = RepeatedKeys::kKeepLast);

/// Reads and parses a file. Throws Error(kIo) if it cannot be read, Error(kCorruptData) if it is not JSON.
Json read_json_file(const std::string& path);

/// Typed access that says which key of which file is wrong. A missing or null key gives `fallback`.
/// Throws Error(kCorruptData) if the value has another type or is outside the result's range.
std::int64_t json_int(const Json& object, const char* key, std::int64_t fallback, std::string_view name);
double json_double(const Json& object, const char* key, double fallback, std::string_view name);
bool json_bool(const Json& object, const char* key, bool fallback, std::string_view name);
std::string json_string(const Json& object, const char* key, std::string_view fallback, std::string_view name);

}  // namespace mneme
