// Ten rounds of two 32x32-bit multiplications; each round adds a Weyl constant to each half of the
// key. The constants are those of the paper, table 2.

#include "core/base/philox.h"

namespace xrun {

namespace {

constexpr uint64_t kMultiplier0 = 0xD2511F53;
constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
constexpr uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1

}  // namespace

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  std::array<uint32_t, 4> x = {
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    // The high half of each product is mixed into one word; its low half is another word.
    const uint64_t product0 = kMultiplier0 * x[0];
    const uint64_t product1 = kMultiplier1 * x[2];
    // The words are permuted, so that the rounds mix all four.
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

uint64_t philox_u64(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b) {
  // The stream number enters the key through a Weyl step, so that streams of one seed never
  // share a key.
  const auto words = philox(seed ^ (stream * 0x9E3779B97F4A7C15ULL), a, b);
  return (uint64_t{words[1]} << 32) | words[0];
}

double philox_unit(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b) {
  // The upper 53 bits fill a double's significand exactly.
  return static_cast<double>(philox_u64(seed, stream, a, b) >> 11) * 0x1.0p-53;
}

}  // namespace xrun
