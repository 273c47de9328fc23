#pragma once
// Hashes and compares short strings, inline since the tokenizer does both for every word of a text.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace xrun {

template <size_t kSize>
inline uint64_t load_bytes(const char* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, kSize);
  return word;
}

// A 64 x 64 bit product folded to 64 bits, as in wyhash.
inline uint64_t fold_product(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Returns true if both strings of `size` bytes are equal. Requires size > 0. Loads that may overlap
// are cheaper than a call of memcmp.
inline bool equal_bytes(const char* a, const char* b, size_t size) {
  if (size > 24) return std::memcmp(a, b, size) == 0;
  if (size >= 8) {
    return load_bytes<8>(a) == load_bytes<8>(b) &&
           load_bytes<8>(a + size - 8) == load_bytes<8>(b + size - 8) &&
           (size <= 16 || load_bytes<8>(a + 8) == load_bytes<8>(b + 8));
  }
  if (size >= 4) {
    return load_bytes<4>(a) == load_bytes<4>(b) &&
           load_bytes<4>(a + size - 4) == load_bytes<4>(b + size - 4);
  }
  return a[0] == b[0] && a[size / 2] == b[size / 2] && a[size - 1] == b[size - 1];
}

// Returns a hash of a short string, the same in every run.
inline uint64_t hash_piece(std::string_view piece) {
  // wyhash's constants.
  constexpr uint64_t kA = 0xA0761D6478BD642Full, kB = 0xE7037ED1A0B428DBull;
  const char* at = piece.data();
  size_t left = piece.size();
  uint64_t hash = left * 0x8EBC6AF09C88C6E3ull;
  // Eight bytes at a time; the last loads overlap the ones before, so that no byte is read alone.
  for (; left > 16; left -= 16, at += 16)
    hash = fold_product(load_bytes<8>(at) ^ kA, load_bytes<8>(at + 8) ^ hash);
  if (left >= 8)
    return fold_product(fold_product(load_bytes<8>(at) ^ kA, load_bytes<8>(at + left - 8) ^ hash),
                        kB);
  if (left >= 4)
    return fold_product(fold_product(load_bytes<4>(at) ^ kA, load_bytes<4>(at + left - 4) ^ hash),
                        kB);
  if (left == 0) return fold_product(hash ^ kA, kB);
  // One to three bytes: first, middle, last.
  const auto byte = [&](size_t i) { return uint64_t(static_cast<unsigned char>(at[i])); };
  return fold_product(
      fold_product((byte(0) << 16 | byte(left / 2) << 8 | byte(left - 1)) ^ kA, kB ^ hash), kB);
}

}  // namespace xrun
