#pragma once
// SentencePiece's precompiled normalization table: a double-array trie and its replacement strings.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// Immutable, thread-safe. The bytes are hostile input: every index is checked.
class Charsmap {
 public:
  // Parses the trie's size in bytes (little-endian u32), the trie in units of 4 bytes, and the
  // replacement strings, each followed by a zero byte. Throws Error starting with `where` if the
  // size is wrong or if the strings are not UTF-8.
  Charsmap(std::string_view bytes, const std::string& where);

  // Returns the replacement of the shortest prefix of `part` in the trie, or nullopt. An index
  // outside the table counts as unknown.
  std::optional<std::string_view> find(std::string_view part) const;
  // Returns true if no search leaves the table, so that a library without bounds checks may use it.
  bool is_sound() const;

 private:
  std::vector<uint32_t> units_;
  std::string texts_;
};

// Decodes base64 with its padding. Returns nullopt if a character or the length is wrong.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace xrun
