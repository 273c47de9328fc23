#pragma once
// SHA-256 (FIPS 180-4): the digest of everything that leaves this machine, such as the members of a
// bundle. hash.h has a faster digest for caches, which detects damage but not forgery.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace xrun {

class Sha256 {
 public:
  // `portable` leaves the SHA instructions of x86 unused, as on machines without them.
  explicit Sha256(bool portable = false) : portable_(portable) {}
  Sha256& bytes(std::string_view data);
  // Returns 64 lower-case hexadecimal digits; more bytes may follow.
  std::string hex() const;

 private:
  using Words = std::array<uint32_t, 8>;

  Words words_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};  // the bytes that fill no block yet
  uint64_t size_ = 0;                      // of all bytes
  bool portable_;
};

std::string sha256_hex(std::string_view data);

// Returns the digest of a file's bytes, read in pieces; `each` gets the bytes read so far after
// each piece, and may throw. Throws Error if the file cannot be read.
std::string sha256_file(const std::filesystem::path& path,
                        const std::function<void(uint64_t bytes)>& each = {});

// True for 64 lower-case hexadecimal digits.
bool is_sha256(std::string_view text);

}  // namespace xrun
