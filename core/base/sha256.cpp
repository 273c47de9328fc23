// Each block of 64 bytes goes through 64 rounds, with the SHA instructions of x86 where the machine
// has them (5 times as fast). Padding: a bit 1, zeros, the number of bits in 64 bits.

#include "core/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace xrun {

namespace {

using Sha256Words = std::array<uint32_t, 8>;

constexpr size_t kBlock = 64;
alignas(16) constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian_word(const unsigned char* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

void mix_plain(Sha256Words& words, const unsigned char* block) {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t) w[t] = big_endian_word(block + 4 * t);
  // The message schedule, FIPS 180-4, section 6.2.2, step 1.
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + w[t - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = words;
  // `first` and `second` are T1 and T2 of step 3.
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + kRoundConstants[t] + w[t];
    const uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const Sha256Words mixed = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < words.size(); ++i) words[i] += mixed[i];
}

#if defined(__x86_64__)

// The instructions keep the words as {a, b, e, f} and {c, d, g, h}, the last one lowest. Each group
// of four rounds takes four words of the schedule, in a ring of four registers.
__attribute__((target("sha,sse4.1,ssse3"))) void mix_sha(Sha256Words& words,
                                                         const unsigned char* block) {
  const __m128i reversed = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i w[4];
  for (int i = 0; i < 4; ++i) {
    w[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + i);
    w[i] = _mm_shuffle_epi8(w[i], reversed);
  }
  const auto set = [&](int x, int y, int z, int v) {
    return _mm_set_epi32(static_cast<int>(words[x]), static_cast<int>(words[y]),
                         static_cast<int>(words[z]), static_cast<int>(words[v]));
  };
  const __m128i abef_before = set(0, 1, 4, 5), cdgh_before = set(2, 3, 6, 7);
  __m128i abef = abef_before, cdgh = cdgh_before;
  for (int group = 0; group < 16; ++group) {
    __m128i& now = w[group % 4];
    if (group >= 4) {
      // w[t] = w[t-16] + s0(w[t-15]) + w[t-7] + s1(w[t-2]), four at a time; now has w[t-16].
      const __m128i &b = w[(group + 1) % 4], &c = w[(group + 2) % 4], &d = w[(group + 3) % 4];
      now = _mm_add_epi32(_mm_sha256msg1_epu32(now, b), _mm_alignr_epi8(d, c, 4));
      now = _mm_sha256msg2_epu32(now, d);
    }
    __m128i sum = _mm_add_epi32(
        now, _mm_load_si128(reinterpret_cast<const __m128i*>(kRoundConstants.data()) + group));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
    sum = _mm_shuffle_epi32(sum, 0x0e);  // an instruction does two rounds, with the lower words
    abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
  }
  abef = _mm_add_epi32(abef, abef_before);
  cdgh = _mm_add_epi32(cdgh, cdgh_before);
  alignas(16) std::array<uint32_t, 4> first, second;
  _mm_store_si128(reinterpret_cast<__m128i*>(first.data()), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(second.data()), cdgh);
  words = {first[3], first[2], second[3], second[2], first[1], first[0], second[1], second[0]};
}

bool has_sha_instructions() {
  static const bool has =
      __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") && [] {
        unsigned a = 0, b = 0, c = 0, d = 0;
        return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
      }();
  return has;
}

#endif

void mix_block(Sha256Words& words, const unsigned char* block, bool portable) {
#if defined(__x86_64__)
  if (!portable && has_sha_instructions()) return mix_sha(words, block);
#else
  (void)portable;
#endif
  mix_plain(words, block);
}

}  // namespace

Sha256& Sha256::bytes(std::string_view data) {
  const size_t held = size_ % kBlock;
  size_ += data.size();
  if (held > 0) {
    const size_t more = std::min(kBlock - held, data.size());
    std::memcpy(block_.data() + held, data.data(), more);
    data.remove_prefix(more);
    if (held + more < kBlock) return *this;
    mix_block(words_, block_.data(), portable_);
  }
  for (; data.size() >= kBlock; data.remove_prefix(kBlock)) {
    mix_block(words_, reinterpret_cast<const unsigned char*>(data.data()), portable_);
  }
  if (!data.empty()) std::memcpy(block_.data(), data.data(), data.size());
  return *this;
}

std::string Sha256::hex() const {
  Sha256Words words = words_;
  std::array<unsigned char, 2 * kBlock> end{};
  const size_t held = size_ % kBlock;
  std::copy_n(block_.begin(), held, end.begin());
  end[held] = 0x80;
  // The bit 1 and the size take 9 bytes; without room for them the padding fills another block.
  const size_t padded = held + 9 <= kBlock ? kBlock : 2 * kBlock;
  for (size_t i = 0; i < 8; ++i) {
    end[padded - 1 - i] = static_cast<unsigned char>(size_ * 8 >> 8 * i);
  }
  for (size_t at = 0; at < padded; at += kBlock) mix_block(words, end.data() + at, portable_);
  std::string text;
  for (const uint32_t word : words) text += fmt::format("{:08x}", word);
  return text;
}

std::string sha256_hex(std::string_view data) { return Sha256().bytes(data).hex(); }

std::string sha256_file(const std::filesystem::path& path,
                        const std::function<void(uint64_t bytes)>& each) {
  Sha256 hash;
  read_file_pieces(path, [&](std::string_view piece, uint64_t total) {
    hash.bytes(piece);
    if (each) each(total);
  });
  return hash.hex();
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace xrun
