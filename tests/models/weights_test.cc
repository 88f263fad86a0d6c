#include "mneme/models/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/safetensors.h"
#include "tests/support/files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/places.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::safetensors;
using testing::TempFolder;
using testing::thrown;

const std::string kFiles = testing::test_data("files/");

std::vector<float> all_of(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.rows() * tensor.columns()));
  read_rows(tensor, 0, tensor.rows(), values.data());
  return values;
}

std::string refusal(ErrorKind kind, const std::string& path) {
  return thrown(kind, [&] { Weights::open(path); });
}

/// A file of tensors of one element each.
std::string scalars(const std::vector<std::string>& names, const std::string& dtype = "F32") {
  std::string header = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[1],"data_offsets":[{},{}]}})", i ? "," : "", names[i],
                          dtype, 4 * i, 4 * i + 4);
  }
  return safetensors(header + "}", std::string(4 * names.size(), '\0'));
}

TEST(Weights, ReadsAFolder) {
  const Weights weights = Weights::open(testing::test_data("models/llama"));
  EXPECT_TRUE(weights.contains("lm_head.weight"));
  EXPECT_FALSE(weights.contains("lm_head.bias"));
  const StoredTensor& norm = weights.get("model.norm.weight", {64});
  EXPECT_EQ(norm.storage, Storage::kBFloat16);
  EXPECT_EQ(all_of(norm), std::vector<float>(64, 1.0f));
  EXPECT_GT(weights.n_bytes(), 400'000);
}

TEST(Weights, OutlivesACopyOfItself) {
  Weights copy = Weights::open(testing::test_data("models/qwen2"));
  copy = Weights(copy);
  EXPECT_EQ(all_of(copy.get("model.norm.weight", {64})), std::vector<float>(64, 1.0f));
}

TEST(Weights, AreKnownByTheirFingerprint) {
  const TempFolder folder;
  std::filesystem::copy_file(testing::test_data("models/llama/model.safetensors"),
                             folder.path() + "/model.safetensors");
  const std::int64_t original = Weights::open(testing::test_data("models/llama")).fingerprint();
  EXPECT_EQ(Weights::open(folder.path()).fingerprint(), original) << "wherever it lies";
  EXPECT_NE(Weights::open(testing::test_data("models/mistral_window8")).fingerprint(), original);
  // One bit of every number, as training on would change them.
  std::string bytes = testing::read_file(folder.path() + "/model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (std::size_t i = 8 + header; i < bytes.size(); i += 2) bytes[i] ^= 1;
  folder.write("model.safetensors", bytes);
  EXPECT_NE(Weights::open(folder.path()).fingerprint(), original);
}

TEST(Weights, NamesWhatIsMissingOrOfAnotherShape) {
  const Weights weights = Weights::open(testing::test_data("models/llama"));
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { weights.get("model.norm.bias", {64}); }),
              HasSubstr("the tensor model.norm.bias is missing"));
  EXPECT_THAT(thrown(ErrorKind::kCorruptData,
                     [&] {
                       weights.get("lm_head.weight", {64, 512});
                     }),
              HasSubstr("lm_head.weight has shape [512, 64], the configuration asks for [64, 512]"));
}

TEST(Weights, TellsWhatNobodyAskedFor) {
  const TempFolder folder;
  folder.write("model.safetensors", scalars({"b", "c", "a", "x.rotary_emb.inv_freq"}));
  const Weights weights = Weights::open(folder.path());
  weights.get("b", {1});
  EXPECT_THAT(weights.unused(), ElementsAre("a", "c"));
  EXPECT_EQ(weights.n_bytes(), 12);
}

TEST(Weights, SaysWhatIsWrongWithThePath) {
  const TempFolder folder;
  EXPECT_THAT(refusal(ErrorKind::kIo, folder.path() + "/absent"), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(ErrorKind::kIo, folder.path()), HasSubstr("neither model.safetensors nor"));
  EXPECT_THAT(refusal(ErrorKind::kInvalidArgument, folder.write("model.bin", "x")), HasSubstr("nor a .gguf file"));
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.write("model.gguf", "x")), HasSubstr("model.gguf"));
  folder.write("model.safetensors", scalars({"a"}) + "12345678");
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.path()), HasSubstr("bytes that no tensor owns"));
}

TEST(Weights, AnUnreadableTypeIsAnErrorOnlyWhenAskedFor) {
  const Weights weights = [] {
    const TempFolder folder;
    folder.write("model.safetensors", scalars({"position_ids"}, "I32"));
    return Weights::open(folder.path());
  }();
  EXPECT_TRUE(weights.contains("position_ids"));
  EXPECT_THAT(thrown(ErrorKind::kUnsupported, [&] { weights.get("position_ids", {1}); }),
              HasSubstr("the tensor position_ids has type I32"));
}

class Shards : public ::testing::Test {
 protected:
  void index(const std::string& map) const {
    folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":8},"weight_map":)" + map + "}");
  }
  TempFolder folder;
};

TEST_F(Shards, AreReadAsOne) {
  folder.write("one.safetensors", scalars({"a", "b"}));
  folder.write("two.safetensors", scalars({"c"}));
  index(R"({"a":"one.safetensors","c":"two.safetensors","b":"one.safetensors"})");
  const Weights weights = Weights::open(folder.path());
  EXPECT_THAT(weights.unused(), ElementsAre("a", "b", "c"));
}

TEST_F(Shards, ThatAreAbsentAreNamed) {
  folder.write("one.safetensors", scalars({"a"}));
  index(R"({"a":"one.safetensors","c":"two.safetensors"})");
  EXPECT_THAT(refusal(ErrorKind::kIo, folder.path()), HasSubstr("two.safetensors"));
}

TEST_F(Shards, MustHaveWhatTheIndexPromises) {
  folder.write("one.safetensors", scalars({"a"}));
  index(R"({"a":"one.safetensors","b":"one.safetensors"})");
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.path()),
              HasSubstr("the tensor b is said to be in one.safetensors, which does not have it"));
}

TEST_F(Shards, MayNotShareAName) {
  folder.write("one.safetensors", scalars({"a", "b"}));
  folder.write("two.safetensors", scalars({"b", "c"}));
  index(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})");
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.path()), HasSubstr("the tensor b was already given"));
}

TEST_F(Shards, MayNotHaveTrailingBytes) {
  folder.write("one.safetensors", scalars({"a"}) + "12345678");
  index(R"({"a":"one.safetensors"})");
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.path()), HasSubstr("bytes that no tensor owns"));
}

TEST_F(Shards, LieInTheSameFolder) {
  const std::string outside = folder.write("outside.safetensors", scalars({"a"}));
  std::filesystem::create_directory(folder.path() + "/model");
  for (const std::string& shard :
       {std::string("../outside.safetensors"), outside, std::string(".."), std::string("."), std::string(""),
        std::string("sub/one.safetensors"), std::string("..\\\\outside"), std::string("one\\u0000.safetensors")}) {
    folder.write("model/model.safetensors.index.json", fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", shard));
    EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.path() + "/model"), HasSubstr("not the name of a file"));
  }
}

TEST_F(Shards, NeedAMap) {
  for (const char* map : {"{}", "[]", "null", "7", R"({"a":7})", R"({"a":["one.safetensors"]})"}) {
    index(map);
    EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.path()), HasSubstr("index.json"));
  }
  folder.write("model.safetensors.index.json", "[1]");
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.path()), HasSubstr("weight_map"));
  folder.write("model.safetensors.index.json", "{");
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.path()), HasSubstr("not valid JSON"));
}

TEST(Weights, ScaleOfFp8TensorsIsTheirCompanion) {
  const TempFolder folder;
  folder.write("model.safetensors", testing::read_file(kFiles + "formats.safetensors"));
  const Weights weights = Weights::open(folder.path());
  const SafetensorsFile expected(kFiles + "formats_expected.safetensors");
  for (const std::string name : {"scaled.weight", "inverse.weight"}) {
    EXPECT_FALSE(weights.contains(name + "_scale") || weights.contains(name + "_scale_inv"));
    for (const auto& tensor : expected.tensors()) {
      if (tensor.name != "safetensors." + name) continue;
      const auto got = all_of(weights.get(name, {16, 16}));
      const auto want = all_of({.name = "", .shape = tensor.shape, .data = tensor.data, .row_order = {}});
      for (std::size_t i = 0; i < 256; ++i)
        EXPECT_TRUE(got[i] == want[i] || (got[i] != got[i] && want[i] != want[i])) << i;
    }
  }
  EXPECT_EQ(weights.get("e4m3", {16, 16}).scale, 1.0f);
}

TEST(Weights, RefusesScalesOfBlocksAndTwoScales) {
  const auto with_scales = [](const std::string& scales) {
    const TempFolder folder;
    folder.write("model.safetensors",
                 safetensors(R"({"w":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)" + scales + "}",
                             std::string(4, 'w') + std::string("\0\0\x80\x7f\0\0\x80\x3f", 8)));
    Weights::open(folder.path());
  };
  EXPECT_THAT(thrown(ErrorKind::kUnsupported,
                     [&] { with_scales(R"("w_scale_inv":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]})"); }),
              HasSubstr("w_scale_inv has shape [2, 1]; only one scale"));
  EXPECT_THAT(thrown(ErrorKind::kUnsupported,
                     [&] { with_scales(R"("w_scale":{"dtype":"I64","shape":[],"data_offsets":[4,12]})"); }),
              HasSubstr("w_scale"));
  const std::string infinite = R"("w_scale":{"dtype":"F32","shape":[],"data_offsets":[4,8]},)";
  EXPECT_THAT(thrown(ErrorKind::kCorruptData,
                     [&] { with_scales(infinite + R"("x":{"dtype":"F32","shape":[],"data_offsets":[8,12]})"); }),
              HasSubstr("the scale w_scale is inf"));
  EXPECT_THAT(thrown(ErrorKind::kCorruptData,
                     [&] {
                       with_scales(R"("y":{"dtype":"F32","shape":[],"data_offsets":[4,8]},)"
                                   R"("w_scale":{"dtype":"F16","shape":[],"data_offsets":[8,10]},)"
                                   R"("w_scale_inv":{"dtype":"F16","shape":[],"data_offsets":[10,12]})");
                     }),
              HasSubstr("two scales"));
}

class GgufModels : public ::testing::TestWithParam<std::string> {};

TEST_P(GgufModels, GiveTheCheckpointsTensors) {
  const Weights weights = Weights::open(kFiles + GetParam() + ".gguf");
  const SafetensorsFile expected(kFiles + GetParam() + "_expected.safetensors");
  for (const auto& tensor : expected.tensors()) {
    const StoredTensor& got = weights.get(tensor.name, tensor.shape);
    EXPECT_EQ(all_of(got), all_of({.name = "", .shape = tensor.shape, .data = tensor.data, .row_order = {}}))
        << tensor.name;
  }
  EXPECT_THAT(weights.unused(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Weights, GgufModels, ::testing::Values("llama", "qwen2", "qwen3"),
                         [](const auto& model) { return model.param; });

testing::GgufWriter gguf(const std::string& architecture) {
  testing::GgufWriter file;
  file.keys = {{"general.architecture", 8, testing::gguf_string(architecture)},
               {"llama.attention.head_count", 4, testing::raw(2u)}};
  file.tensors = {{"blk.0.attn_k.weight", {1, 8}}, {"output.weight", {256, 1}, 10, 32}};
  file.data.assign(512, '\0');
  return file;
}

TEST(Weights, NamesTensorAndTypeOfWhatGgufCannotRead) {
  const TempFolder folder;
  const Weights weights = Weights::open(folder.write("m.gguf", gguf("llama").str()));
  EXPECT_THAT(thrown(ErrorKind::kUnsupported,
                     [&] {
                       weights.get("lm_head.weight", {1, 256});
                     }),
              HasSubstr("lm_head.weight has type Q2_K"));
  EXPECT_THAT(weights.get("model.layers.0.self_attn.k_proj.weight", {8, 1}).row_order,
              ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

// Nothing holds the shape of such a tensor against the file: neither memory nor sums may follow it.
TEST(Weights, TrustNoShapeOfAnUnknownType) {
  const TempFolder folder;
  testing::GgufWriter file = gguf("llama");
  file.tensors = {{"blk.0.attn_q.weight", {1, 2'000'000'000}, 99},
                  {"blk.1.attn_q.weight", {1ull << 40, 1ull << 20}, 99}};
  const Weights weights = Weights::open(folder.write("m.gguf", file.str()));
  EXPECT_TRUE(weights.contains("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_EQ(weights.n_elements(), 0);
}

TEST(Weights, AFolderIsNoGgufFileWhateverItIsCalled) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() + "/x.gguf");
  folder.write("x.gguf/model.safetensors", scalars({"a"}));
  EXPECT_FALSE(Weights::open(folder.path() + "/x.gguf").is_gguf());
  EXPECT_TRUE(Weights::open(folder.write("m.gguf", gguf("llama").str())).is_gguf());
}

TEST(Weights, RefusesGgufModelsThatMakeNoSense) {
  const TempFolder folder;
  EXPECT_THAT(refusal(ErrorKind::kUnsupported, folder.write("m.gguf", gguf("starcoder").str())),
              HasSubstr("starcoder"));
  for (const std::uint32_t heads : {0u, 3u, 8u, ~0u}) {
    testing::GgufWriter file = gguf("llama");
    file.keys[1].value = testing::raw(heads);
    EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.write("m.gguf", file.str())), HasSubstr("attn_k.weight"));
  }
  testing::GgufWriter file = gguf("llama");
  file.tensors.push_back({"lm_head.weight", {1}});
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.write("m.gguf", file.str())), HasSubstr("already given"));
  file.keys[0] = {"general.architecture", 4, testing::raw(1u)};
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, folder.write("m.gguf", file.str())), HasSubstr("general.architecture"));
}

}  // namespace
}  // namespace mneme
