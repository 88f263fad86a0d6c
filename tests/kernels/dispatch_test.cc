#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"

namespace mneme::kernels {
namespace {

/// What active() makes of MNEME_ISA, in a process of its own: the choice is made once.
int exit_status_with(const char* isa, std::string_view expected) {
  const pid_t child = fork();
  if (child == 0) {
    if (isa) {
      setenv("MNEME_ISA", isa, 1);
    } else {
      unsetenv("MNEME_ISA");
    }
    try {
      _exit(active().name == expected ? 0 : 1);
    } catch (const Error& error) {
      const std::string what = error.what();
      const bool clear = error.kind() == ErrorKind::kInvalidArgument && what.find(isa) != what.npos &&
                         what.find("scalar") != what.npos;
      _exit(expected.empty() && clear ? 0 : 2);
    }
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(Dispatch, ScalarComesFirstAndTheOthersInOrder) {
  const std::vector<std::string_view> order = {"scalar", "avx2", "avx512", "avx512vnni", "amx"};
  const std::vector<const Table*> tables = available();
  ASSERT_LE(tables.size(), order.size());
  ASSERT_GE(tables.size(), 1u);
  for (std::size_t i = 0; i < tables.size(); ++i) EXPECT_EQ(tables[i]->name, order[i]);
}

TEST(Dispatch, EveryKernelIsThere) {
  for (const Table* table : available()) {
    for (const DType format : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const FormatKernels& kernels = table->of(format);
      EXPECT_TRUE(kernels.prepared_bytes && kernels.prepare && kernels.linear && kernels.attend &&
                  kernels.store_tokens && kernels.load_tokens)
          << table->name;
    }
    EXPECT_TRUE(table->merge_states && table->finish_states && table->rms_norm && table->rotate && table->add &&
                table->relu_multiply && table->silu_multiply && table->gelu_tanh_multiply && table->gelu_erf_multiply)
        << table->name;
  }
}

TEST(Dispatch, TheBestIsUsedUnlessAnotherIsNamed) {
  EXPECT_EQ(exit_status_with(nullptr, available().back()->name), 0);
  EXPECT_EQ(exit_status_with("", available().back()->name), 0);
  for (const Table* table : available()) EXPECT_EQ(exit_status_with(table->name, table->name), 0) << table->name;
}

TEST(Dispatch, AnUnknownNameIsRefusedWithTheOnesThereAre) {
  EXPECT_EQ(exit_status_with("sse9", ""), 0);
  EXPECT_EQ(exit_status_with("AVX2", ""), 0);
}

}  // namespace
}  // namespace mneme::kernels
