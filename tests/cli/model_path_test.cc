#include "mneme/cli/model_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TempFolder;
using testing::thrown;

/// The variables that say where models lie, all unset at first and put back afterwards.
class ModelPathTest : public ::testing::Test {
 protected:
  ModelPathTest() {
    for (const char* name : {"MNEME_CACHE", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HOME"}) {
      const char* value = std::getenv(name);
      saved_[name] = value ? std::optional<std::string>(value) : std::nullopt;
      unsetenv(name);
    }
  }
  ~ModelPathTest() override {
    for (const auto& [name, value] : saved_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }
  void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  std::string make(const std::string& path) {
    fs::create_directories(fs::path(folder_.path()) / path);
    return folder_.path() + "/" + path;
  }

  TempFolder folder_;
  std::map<std::string, std::optional<std::string>> saved_;
};

TEST_F(ModelPathTest, APathThatIsThereIsTaken) {
  EXPECT_EQ(find_model(folder_.path()), folder_.path());
  EXPECT_THAT(thrown(ErrorKind::kIo, [&] { find_model(folder_.path() + "/none"); }), HasSubstr("/none"));
}

TEST_F(ModelPathTest, TheDefaultModelLiesInTheCacheThatSetupUses) {
  constexpr const char* kName = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
  set("HOME", folder_.path());
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { find_model(""); }), HasSubstr(".cache/mneme/models/SmolLM2"));
  make(".cache/mneme/models");
  folder_.write(std::string(".cache/mneme/") + kName, "");
  EXPECT_EQ(find_model(""), folder_.path() + "/.cache/mneme/" + kName);
  set("XDG_CACHE_HOME", make("xdg"));
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { find_model(""); }), HasSubstr("xdg/mneme/models"));
  set("MNEME_CACHE", make("own"));
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { find_model(""); }), HasSubstr("own/models"));
}

TEST_F(ModelPathTest, AHubIdIsLookedUpInTheLocalCache) {
  set("HF_HOME", folder_.path());
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { find_model("org/name-1.5_x"); }), HasSubstr("hf download org/name-1.5_x"));
  const std::string only = make("hub/models--org--name-1.5_x/snapshots/abc");
  EXPECT_EQ(find_model("org/name-1.5_x"), only);
  const std::string other = make("hub/models--org--name-1.5_x/snapshots/def");
  EXPECT_THROW(find_model("org/name-1.5_x"), Error);  // which of the two?
  make("hub/models--org--name-1.5_x/refs");
  folder_.write("hub/models--org--name-1.5_x/refs/main", "def");
  EXPECT_EQ(find_model("org/name-1.5_x"), other);
}

TEST_F(ModelPathTest, AnIdNeverLeavesTheCache) {
  set("HF_HOME", folder_.path());
  for (const char* id : {"../x", "a/..", "/a", "a/", "a/b/c", "a b/c", ".a/b"}) {
    EXPECT_THAT(thrown(ErrorKind::kIo, [&] { find_model(id); }), HasSubstr("no such")) << id;
  }
}

}  // namespace
}  // namespace mneme::cli
