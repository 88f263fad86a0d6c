#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/models/config_defaults.h"

namespace mneme {

/// The keys of one object, with checks that say which key of which file is wrong. A key may stand under another name.
struct ConfigKeys {
  static constexpr std::int64_t kMaxSize = INT32_MAX;

  const Json& json;
  const std::string& file;
  const Json& aliases = config_aliases("");

  /// What the file calls a key.
  const char* spelled(const char* key) const;
  bool has(const char* key) const;

  /// 1 to `max`; `fallback` (which need not be positive) if the key is missing or null.
  std::int64_t size(const char* key, std::int64_t fallback = 0, std::int64_t max = kMaxSize) const;
  double positive(const char* key, double fallback) const;
  /// A finite number.
  double number(const char* key, double fallback) const;
  /// A token id; a negative one means "none", as older files write it.
  std::optional<std::int64_t> token(const char* key) const;
  /// One id or a list of ids.
  std::vector<std::int64_t> tokens(const char* key) const;
};

}  // namespace mneme
