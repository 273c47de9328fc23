#pragma once
// XXH3-128 digests, the one hash that names caches, weights and recipes.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace xrun {

// Streams bytes into one digest. Fields added through `field` carry their length, so that no two
// different sequences of fields share a digest by concatenation.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& bytes(std::string_view data);
  Hasher& field(std::string_view name, std::string_view value);
  Hasher& field(std::string_view name, int64_t value);
  // Returns 32 lower-case hexadecimal digits; the hasher may be used further.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the digest of `data` as 32 lower-case hexadecimal digits.
std::string hash_hex(std::string_view data);

// Returns the 64-bit XXH3 of `data`, the checksum of cache pages.
uint64_t hash_u64(std::string_view data);

// Returns the digest of a file's bytes, read in pieces. Throws Error if the file cannot be read.
std::string hash_file(const std::filesystem::path& path);

// Returns hash_file() of a large file: `each` gets the bytes read so far after each piece, and may
// throw.
std::string hash_file_pieces(const std::filesystem::path& path,
                             const std::function<void(uint64_t bytes)>& each);

}  // namespace xrun
