#pragma once
// Philox4x32-10 (Salmon et al. 2011) for device code: the same words as core/base/philox.h, which
// kernels may not include. tests/device/philox_test.cpp compares them.

#include <cstdint>

namespace xrun::kernels {

struct PhiloxWords {
  uint32_t word[4];
};

// The four words of the counter (counter, 0) under a key.
constexpr PhiloxWords philox_words(uint64_t key, uint64_t counter) {
  PhiloxWords x = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * x.word[2];
    x = {{static_cast<uint32_t>(product1 >> 32) ^ x.word[1] ^ key0, static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ x.word[3] ^ key1,
          static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9;  // golden ratio
    key1 += 0xBB67AE85;  // sqrt(3) - 1
  }
  return x;
}

}  // namespace xrun::kernels
