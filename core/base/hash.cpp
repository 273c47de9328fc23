// A field is hashed as the sizes of name and value (two 64-bit integers), the name, the value.

#include "core/base/hash.h"

// For the complete type XXH3_state_t, which a State contains.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <array>

#include "core/base/error.h"
#include "core/base/file.h"

namespace xrun {

namespace {

std::string to_hex(XXH128_hash_t value) {
  return fmt::format("{:016x}{:016x}", value.high64, value.low64);
}

}  // namespace

// In this file, so that no header needs xxHash.
struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::bytes(std::string_view data) {
  XXH3_128bits_update(&state_->xxh, data.data(), data.size());
  return *this;
}

Hasher& Hasher::field(std::string_view name, std::string_view value) {
  // Without sizes ("ab", "c") and ("a", "bc") would be equal.
  const std::array<uint64_t, 2> sizes = {name.size(), value.size()};
  bytes({reinterpret_cast<const char*>(sizes.data()), sizeof(sizes)});
  return bytes(name).bytes(value);
}

Hasher& Hasher::field(std::string_view name, int64_t value) {
  // The eight bytes of the integer, little endian on every machine that we build for.
  return field(name, std::string_view(reinterpret_cast<const char*>(&value), sizeof(value)));
}

std::string Hasher::hex() const { return to_hex(XXH3_128bits_digest(&state_->xxh)); }

std::string hash_hex(std::string_view data) {
  return to_hex(XXH3_128bits(data.data(), data.size()));
}

// 64 bits for checks against damage; names of content use the 128 bits of hash_hex().
uint64_t hash_u64(std::string_view data) { return XXH3_64bits(data.data(), data.size()); }

// The same digest as hash_hex() of its bytes.
std::string hash_file(const std::filesystem::path& path) {
  return hash_file_pieces(path, [](uint64_t) {});
}

std::string hash_file_pieces(const std::filesystem::path& path,
                             const std::function<void(uint64_t bytes)>& each) {
  Hasher hasher;
  read_file_pieces(path, [&](std::string_view piece, uint64_t total) {
    hasher.bytes(piece);
    each(total);
  });
  return hasher.hex();
}

}  // namespace xrun
