// The bytes by which `xrun doctor` measures a disk.

#include "tools/commands/engine/doctor.h"

#include <gtest/gtest.h>

#include "core/base/compression.h"

namespace xrun::doctor_test {
namespace {

TEST(Doctor, BytesOfTheDiskProbeDoNotCompress) {
  const std::vector<char> block = noise_block(100003);
  ASSERT_EQ(block.size(), 100003u);
  EXPECT_GT(zstd_frame({block.data(), block.size()}).size(), 100000u);
  EXPECT_EQ(noise_block(100003), block);
}

}  // namespace
}  // namespace xrun::doctor_test
