#pragma once
// Fixture of the kernel tests: the instruction sets of this machine, random rows, bf16 bits.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

// Runs once per instruction set; one that the machine lacks is skipped.
class KernelTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = kernels::cpu_kernels_named(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  }
  const kernels::CpuKernels* kernels_ = nullptr;
};

inline auto all_instruction_sets() { return testing::Values("portable", "avx2", "avx512"); }

inline std::string instruction_set_name(const testing::TestParamInfo<const char*>& info) {
  return info.param;
}

// Returns n floats, uniform in [-scale, scale].
inline std::vector<float> random_floats(int64_t n, uint64_t seed, float scale = 1.0f) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const double unit = philox_unit(seed, 1, 0, static_cast<uint64_t>(i));
    x[static_cast<size_t>(i)] = static_cast<float>(2 * unit - 1) * scale;
  }
  return x;
}

inline float from_bf16(kernels::Bf16 bits) {
  const uint32_t word = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

inline kernels::Bf16 to_bf16(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return static_cast<kernels::Bf16>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}

inline std::vector<kernels::Bf16> to_bf16(const std::vector<float>& x) {
  std::vector<kernels::Bf16> bits;
  for (const float value : x) bits.push_back(to_bf16(value));
  return bits;
}

inline std::vector<float> from_bf16(const std::vector<kernels::Bf16>& bits) {
  std::vector<float> x;
  for (const kernels::Bf16 b : bits) x.push_back(from_bf16(b));
  return x;
}

}  // namespace xrun
