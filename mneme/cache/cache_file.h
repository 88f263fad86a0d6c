#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mneme/base/safetensors.h"
#include "mneme/cache/plan.h"

namespace mneme {

/// What a saved cache says of itself.
///
/// The file is a .safetensors file. Its metadata names the format and its version, the arithmetic that its blocks were
/// made by (rows of one cache equal a cold run only where that is the same), the shape and the options of the cache,
/// and the model. Its tensors are, for each layer l,
///
///   layer.l.raw, layer.l.sealed, layer.l.first   U8 [blocks, bytes of a block]: every block once, however many
///                                                sequences share it
///   layer.l.sequences                            I64: for each sequence its length, its first held token, whether the
///                                                open block has to be cleared behind its last token, and its two
///                                                lists, each as a count and indices into those tensors (-1: let go)
///
/// for layers with attention, and for layers with states
///
///   layer.l.states, layer.l.inputs               U8 [blocks, bytes of a block]
///   layer.l.state_sequences                      I64: for each sequence its length, the tokens that its states have
///                                                seen, that the kept ones have, and from where a crop may go back;
///                                                the two blocks; the lists of snapshots and of inputs
///
/// and, if they were given, token_ids.s I64 for each sequence s. Behind each table of blocks, <table>.checksums I64
/// [blocks] are theirs; "checksum" in the metadata is that of the other metadata and of the lists. A file whose bytes
/// changed is refused.
struct CacheFileInfo {
  CacheShape shape;
  CacheOptions options;
  bool recording = false;
  std::string model;                                 ///< fingerprint that was given to save(), or empty
  std::vector<std::vector<std::int64_t>> token_ids;  ///< of each sequence, if they were given

  /// Throws Error(kIo), Error(kCorruptData) for a damaged file or one of another kind, Error(kUnsupported) for a newer
  /// version.
  static CacheFileInfo read(const std::string& path);
  static CacheFileInfo read(const SafetensorsFile& file);
};

/// The metadata of a cache file, but for its checksum and for what CacheFileInfo::read takes from tensors.
std::map<std::string, std::string> cache_file_metadata(const CacheFileInfo& info);

/// The lists of a cache file by their names: its I64 tensors but for checksums.
using CacheFileLists = std::map<std::string, std::span<const std::byte>>;

/// Of all metadata but "checksum" itself, and of the lists.
std::string cache_file_checksum(const std::map<std::string, std::string>& metadata, const CacheFileLists& lists);

}  // namespace mneme
