#include "mneme/text/bpe_json.h"

#include "mneme/base/error.h"
#include "mneme/text/component.h"

namespace mneme {
namespace {

const Json& required(const Json& model, const char* key, bool (Json::*is_type)() const noexcept,
                     std::string_view name) {
  const auto it = model.find(key);
  check(it != model.end() && ((*it).*is_type)(), ErrorKind::kCorruptData,
        "{}: the BPE model lacks \"{}\", or it has the wrong type", name, key);
  return *it;
}

std::pair<std::string_view, std::string_view> read_merge(const Json& merge, std::string_view name) {
  if (merge.is_string()) return split_merge(merge.get_ref<const std::string&>(), name);
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
    throw Error(ErrorKind::kCorruptData, "{}: a merge must be \"a b\" or [\"a\", \"b\"], it is {}", name,
                excerpt(merge));
  }
  return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
}

MergeTable read_merges(const Json& list, const Vocabulary& vocabulary, std::size_t n_prefix_bytes,
                       std::string_view name) {
  MergeTable merges;
  merges.reserve(list.size());
  for (const Json& merge : list) {
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = read_merge(merge, name);
    add_merge(vocabulary, left, right, n_prefix_bytes, merges, name);
  }
  return merges;
}

}  // namespace

Vocabulary read_vocabulary(const Json& tokens, std::string_view name) {
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.size(), 8 * tokens.size());
  for (const auto& [text, id] : tokens.items()) {
    if (!is_integer_up_to(id, kMaxTokenId)) {
      throw Error(ErrorKind::kCorruptData, "{}: the id of token \"{}\" must lie in 0..{}, it is {}", name, text,
                  kMaxTokenId, excerpt(id));
    }
    vocabulary.add(text, id.get<std::int64_t>());
  }
  return vocabulary;
}

std::pair<std::string_view, std::string_view> split_merge(std::string_view merge, std::string_view name) {
  const std::size_t space = merge.find(' ');
  check(space != merge.npos && merge.find(' ', space + 1) == merge.npos, ErrorKind::kCorruptData,
        "{}: the merge \"{}\" is not two tokens with one space between them", name, merge);
  return {merge.substr(0, space), merge.substr(space + 1)};
}

void add_merge(const Vocabulary& vocabulary, std::string_view left, std::string_view right, std::size_t n_prefix_bytes,
               MergeTable& merges, std::string_view name) {
  const auto id_of = [&](std::string_view text) {
    const TokenId id = vocabulary.find(text);
    check(id != kNoToken, ErrorKind::kCorruptData,
          "{}: the merge \"{} {}\" needs the token \"{}\", which the vocabulary lacks", name, left, right, text);
    return id;
  };
  check(right.size() >= n_prefix_bytes, ErrorKind::kCorruptData,
        "{}: \"{}\" of the merge \"{} {}\" is shorter than the prefix of {} bytes", name, right, left, right,
        n_prefix_bytes);
  const TokenId left_id = id_of(left), right_id = id_of(right);
  std::string merged(left);
  merged += right.substr(n_prefix_bytes);
  merges.add(left_id, right_id, id_of(merged));
}

std::unique_ptr<Bpe> make_bpe(const Json& model, std::string_view name) {
  check(json_double(model, "dropout", 0, name) == 0, ErrorKind::kUnsupported,
        "{}: the BPE model asks for dropout, which makes encoding random; set \"dropout\" to null", name);
  BpeOptions options;
  if (const auto it = model.find("unk_token"); it != model.end() && !it->is_null()) {
    options.unk_token = json_string(model, "unk_token", "", name);
  }
  options.continuing_subword_prefix = json_string(model, "continuing_subword_prefix", "", name);
  options.end_of_word_suffix = json_string(model, "end_of_word_suffix", "", name);
  options.fuse_unk = json_bool(model, "fuse_unk", false, name);
  options.byte_fallback = json_bool(model, "byte_fallback", false, name);
  options.ignore_merges = json_bool(model, "ignore_merges", false, name);

  Vocabulary vocabulary = read_vocabulary(required(model, "vocab", &Json::is_object, name), name);
  MergeTable merges = read_merges(required(model, "merges", &Json::is_array, name), vocabulary,
                                  options.continuing_subword_prefix.size(), name);
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(options));
}

}  // namespace mneme
