#pragma once
// XXH3-128 digests, the one hash that names caches, weights and recipes.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace xrun {

// Streams bytes into one digest. `field` hashes lengths too, so that different sequences of fields
// never concatenate to the same bytes.
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

// As hash_file, for a large file: calls `each`, which may throw, after each piece with the number
// of bytes read so far.
std::string hash_file_pieces(const std::filesystem::path& path,
                             const std::function<void(uint64_t bytes)>& each);

}  // namespace xrun
