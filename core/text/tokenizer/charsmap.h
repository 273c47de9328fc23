#pragma once
// The precompiled normalization table of SentencePiece: a double-array trie and the texts it names.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// Immutable, thread-safe. Made from bytes of others: no index is trusted.
class Charsmap {
 public:
  // Takes the table's bytes: the trie's size in bytes as a little-endian u32, its units of 4 bytes,
  // and texts that end with a zero byte. Throws Error that starts with `where` if the size is
  // wrong, or if the texts are not UTF-8.
  Charsmap(std::string_view bytes, const std::string& where);

  // Returns what stands for the shortest prefix of `part` that the trie knows; none if it knows
  // none. An index outside of the table counts as unknown.
  std::optional<std::string_view> find(std::string_view part) const;
  // Whether no search, whatever the text, points outside of the table; a library that does not look
  // may then use it.
  bool is_sound() const;

 private:
  std::vector<uint32_t> units_;
  std::string texts_;
};

// Decodes base64 with its padding. Returns none if a character or the length is wrong.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace xrun
