// The random words of the plug-in's kernels, computed on the host here, are those of a run.

#include "kernels/cuda/philox.h"

#include <gtest/gtest.h>

#include "core/base/philox.h"

namespace xrun::philox_test {
namespace {

TEST(KernelPhilox, MatchesTheHost) {
  for (const uint64_t key :
       {uint64_t{0}, uint64_t{7}, ~uint64_t{0}, uint64_t{0x123456789abcdef0}}) {
    for (const uint64_t counter : {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{1} << 33}) {
      const auto wanted = philox(key, 0, counter);
      const kernels::PhiloxWords got = kernels::philox_words(key, counter);
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], wanted[i]) << key << " " << counter;
    }
  }
}

}  // namespace
}  // namespace xrun::philox_test
