#include "mneme/cache/plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "mneme/base/error.h"

namespace mneme {
namespace {

using kernels::kBlockTokens;

/// What a backend lets one choose, and what it takes where nothing is chosen. An empty list: the option is not its.
struct Backend {
  const char* name = "";
  std::vector<std::int64_t> nbits = {}, axes = {};
  std::optional<std::int64_t> group = {}, residual = {}, sinks = {};
  bool own_key_bits = false, rotates = false;
};

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = {
      {.name = "quanto", .nbits = {4, 2}, .axes = {0, -1}, .group = 64, .residual = 128},
      {.name = "hqq", .nbits = {4, 1, 2, 3, 8}, .axes = {0, 1}, .group = 64, .residual = 128},
      {.name = "kivi",
       .nbits = {4, 2, 3, 8},
       .axes = {},
       .group = 32,
       .residual = 128,
       .sinks = 4,
       .own_key_bits = true,
       .rotates = true},
      {.name = "int8", .nbits = {}, .axes = {}, .group = {}, .residual = 0},
      {.name = "fp8", .nbits = {}, .axes = {}, .group = {}, .residual = {}},
  };
  return all;
}

const Backend& backend_named(const std::string& name) {
  std::vector<std::string> known;
  for (const Backend& backend : backends()) {
    if (name == backend.name) return backend;
    known.push_back(backend.name);
  }
  throw Error(ErrorKind::kInvalidArgument, "cache_config: there is no backend \"{}\"; there are {}", name,
              fmt::join(known, ", "));
}

/// The codec options of one layer, complete.
struct CodecChoice {
  const Backend* backend;
  std::int64_t nbits_key = 0, nbits_value = 0, axis_key = 0, axis_value = 0, group = 0, residual = 0, sinks = 0;
  bool rotate_values = false;
};

class Chooser {
 public:
  explicit Chooser(const CacheConfig& config)
      : config_(config), backend_(backend_named(config.backend.value_or("quanto"))) {
    refuse("nbits", config.nbits.has_value(), !backend_.nbits.empty());
    refuse("nbits_key", config.nbits_key.has_value(), backend_.own_key_bits);
    refuse("nbits_value", config.nbits_value.has_value(), backend_.own_key_bits);
    refuse("axis_key", config.axis_key.has_value(), !backend_.axes.empty());
    refuse("axis_value", config.axis_value.has_value(), !backend_.axes.empty());
    refuse("q_group_size", config.q_group_size.has_value(), backend_.group.has_value());
    // fp8 keeps no residual, which 0 says too.
    refuse("residual_length", config.residual_length.value_or(0) != 0, backend_.residual.has_value());
    refuse("sink_length", config.sink_length.has_value(), backend_.sinks.has_value());
    refuse("rotate_values", config.rotate_values.has_value(), backend_.rotates);
  }

  CodecChoice choice(std::int64_t layer) const {
    CodecBits bits{.nbits = config_.nbits, .nbits_key = config_.nbits_key, .nbits_value = config_.nbits_value};
    for (const LayerBits& run : config_.layers) {
      if (layer >= run.first && layer <= run.last) bits = run.bits;
      refuse("layers", true, !backend_.nbits.empty());
      refuse("nbits_key", run.bits.nbits_key.has_value(), backend_.own_key_bits);
      refuse("nbits_value", run.bits.nbits_value.has_value(), backend_.own_key_bits);
    }
    CodecChoice c{.backend = &backend_};
    if (!backend_.nbits.empty()) {
      const std::int64_t nbits = one_of("nbits", bits.nbits, backend_.nbits);
      c.nbits_key = bits.nbits_key ? one_of("nbits_key", bits.nbits_key, backend_.nbits) : nbits;
      c.nbits_value = bits.nbits_value ? one_of("nbits_value", bits.nbits_value, backend_.nbits) : nbits;
    }
    if (!backend_.axes.empty()) {
      c.axis_key = one_of("axis_key", config_.axis_key, backend_.axes);
      c.axis_value = one_of("axis_value", config_.axis_value, backend_.axes);
    }
    c.group = within("q_group_size", config_.q_group_size.value_or(backend_.group.value_or(1)), 1, 1 << 20);
    c.residual = within("residual_length", config_.residual_length.value_or(backend_.residual.value_or(0)), 0,
                        std::int64_t{1} << 40);
    c.sinks = within("sink_length", config_.sink_length.value_or(backend_.sinks.value_or(0)), 0, kBlockTokens);
    c.rotate_values = backend_.rotates && config_.rotate_values.value_or(true);
    return c;
  }

 private:
  void refuse(const char* key, bool given, bool known) const {
    check(!given || known, ErrorKind::kInvalidArgument, "cache_config: {} is not an option of backend {}; leave it out",
          key, backend_.name);
  }
  std::int64_t one_of(const char* key, std::optional<std::int64_t> value, std::span<const std::int64_t> allowed) const {
    const std::int64_t chosen = value.value_or(allowed.front());
    check(std::ranges::find(allowed, chosen) != allowed.end(), ErrorKind::kInvalidArgument,
          "cache_config: {} = {} is not one of {} for backend {}", key, chosen, fmt::join(allowed, ", "),
          backend_.name);
    return chosen;
  }
  static std::int64_t within(const char* key, std::int64_t value, std::int64_t least, std::int64_t most) {
    check(value >= least && value <= most, ErrorKind::kInvalidArgument, "cache_config: {} = {} is not {} to {}", key,
          value, least, most);
    return value;
  }

  const CacheConfig& config_;
  const Backend& backend_;
};

std::shared_ptr<const quant::BlockCodec> make_codec(const CodecChoice& c, const kernels::BlockLayout& raw) {
  const std::string name = c.backend->name;
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  if (name == "quanto")
    return quant::make_quanto(
        {.nbits = i(c.nbits_key), .axis_key = i(c.axis_key), .axis_value = i(c.axis_value), .q_group_size = c.group},
        raw);
  if (name == "hqq")
    return quant::make_hqq(
        {.nbits = i(c.nbits_key), .axis_key = i(c.axis_key), .axis_value = i(c.axis_value), .q_group_size = c.group},
        raw);
  if (name == "kivi")
    return quant::make_kivi(
        {.nbits_key = i(c.nbits_key), .nbits_value = i(c.nbits_value), .q_group_size = c.group, .sink_length = c.sinks},
        raw);
  return name == "int8" ? quant::make_int8(raw) : quant::make_fp8(raw);
}

void check_options(const CacheShape& shape, const CacheOptions& options) {
  static constexpr std::int64_t kMost = std::int64_t{1} << 53;  // tokens, sequences or bytes: more than any machine has
  const auto positive = [](const std::optional<std::int64_t>& value, const char* name) {
    check(!value || (*value > 0 && *value <= kMost), ErrorKind::kInvalidArgument, "{} must be 1 to {}, it is {}", name,
          kMost, value.value_or(0));
  };
  positive(options.max_cache_len, "max_cache_len");
  check(!shape.layers.empty(), ErrorKind::kInvalidArgument, "a cache of no layers cannot be");
  positive(options.max_batch_size, "max_batch_size");
  positive(options.config.max_cache_bytes, "max_cache_bytes");
  check(!options.max_batch_size || options.max_cache_len, ErrorKind::kInvalidArgument,
        "max_batch_size = {} is for static caches; give max_cache_len too", options.max_batch_size.value_or(0));
  const CacheConfig& c = options.config;
  check(options.quantized || !names_codec(c), ErrorKind::kInvalidArgument,
        "cache_config names a codec but the cache is not quantized; ask for cache_implementation = quantized");
  check(
      c.offloading.value_or(false) || !(c.offload_device || c.offload_folder || c.offload_only_non_sliding),
      ErrorKind::kInvalidArgument,
      "cache_config says how to offload but not to do so; add \"offloading\": true, or ask for cache_implementation = "
      "offloaded");
  for (const LayerBits& run : c.layers) {
    check(run.last < static_cast<std::int64_t>(shape.layers.size()), ErrorKind::kInvalidArgument,
          "cache_config: layers names layer {} of a model of {}", run.last, shape.layers.size());
  }
}

/// "disk" or "cpu", or nothing.
std::string offload_device_of(const CacheShape& shape, const CacheConfig& config) {
  if (!config.offloading.value_or(false)) return {};
  const std::string device = config.offload_device.value_or(shape.device.is_cpu() ? "disk" : "cpu");
  check(device == "disk" || device == "cpu", ErrorKind::kInvalidArgument,
        "cache_config: offload_device = \"{}\" is not one of disk, cpu", device);
  check(device == "disk" || !shape.device.is_cpu(), ErrorKind::kInvalidArgument,
        "cache_config: offload_device = \"cpu\" moves nothing for a model that is on the CPU; use \"disk\"");
  check(device == "cpu" || !config.offload_folder || !config.offload_folder->empty(), ErrorKind::kInvalidArgument,
        "cache_config: offload_folder is empty; name a folder or leave it out");
  check(device == "disk" || !config.offload_folder, ErrorKind::kInvalidArgument,
        "cache_config: offload_folder = \"{}\" is for offload_device \"disk\"", config.offload_folder.value_or(""));
  return device;
}

}  // namespace

kernels::BlockLayout raw_layout(DType dtype, std::int64_t n_heads, std::int64_t key_dim, std::int64_t value_dim) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  check(n_heads > 0 && key_dim > 0 && value_dim > 0 && n_heads <= kMost && key_dim <= kMost && value_dim <= kMost,
        ErrorKind::kInvalidArgument, "a cache of {} heads of {} and {} cannot be: each must be 1 to {}", n_heads,
        key_dim, value_dim, kMost);
  return {.format = dtype, .n_heads = n_heads, .key_dim = key_dim, .value_dim = value_dim};
}

std::string LayerPlan::codec_name() const { return codec ? codec->name() : std::string(name_of(layout.format)); }

std::int64_t LayerPlan::sealed_block_bytes() const {
  return codec ? codec->codes().block_bytes(false) : layout.block_bytes();
}

double LayerPlan::bytes_per_token() const { return static_cast<double>(sealed_block_bytes()) / kBlockTokens; }

bool LayerPlan::is_like(const LayerPlan& other) const {
  const bool same_codec = codec && other.codec
                              ? codec->name() == other.codec->name() && codec->codes() == other.codec->codes()
                              : codec == other.codec;
  return same_codec && retention == other.retention && layout == other.layout &&
         residual_blocks == other.residual_blocks && rotate_values == other.rotate_values &&
         offloaded == other.offloaded && state == other.state;
}

CachePlan plan_cache(const CacheShape& shape, const CacheOptions& options) {
  check_options(shape, options);
  CachePlan plan{.layers = {}, .offload_device = offload_device_of(shape, options.config)};
  const bool only_non_sliding = options.config.offload_only_non_sliding.value_or(options.max_cache_len.has_value());
  const std::optional<Chooser> chooser = options.quantized ? std::optional<Chooser>(options.config) : std::nullopt;
  for (std::size_t i = 0; i < shape.layers.size(); ++i) {
    const LayerShape& wanted = shape.layers[i];
    LayerPlan layer{.retention = wanted.retention, .state = wanted.state, .n_readers = wanted.n_readers};
    if (wanted.has_attention()) {
      layer.layout = raw_layout(options.dtype.value_or(shape.dtype), wanted.n_heads, wanted.key_dim, wanted.value_dim);
      layer.offloaded = !plan.offload_device.empty() && !(only_non_sliding && wanted.retention.limited());
    }
    if (chooser) {
      const CodecChoice choice = chooser->choice(static_cast<std::int64_t>(i));  // an error for layers without keys too
      if (layer.has_attention()) {
        layer.codec = make_codec(choice, layer.layout);
        layer.residual_blocks = (choice.residual + kBlockTokens - 1) / kBlockTokens;
        layer.rotate_values = choice.rotate_values;
      }
    }
    plan.layers.push_back(std::move(layer));
  }
  const bool is_static = options.max_cache_len.has_value(), offloaded = !plan.offload_device.empty();
  if (options.quantized) {
    plan.implementation = std::string("quantized") + (offloaded ? "_offloaded" : "") + (is_static ? "_static" : "");
  } else {
    plan.implementation = offloaded ? is_static ? "offloaded_static" : "offloaded" : is_static ? "static" : "dynamic";
  }
  return plan;
}

}  // namespace mneme
