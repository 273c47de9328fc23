// A unit of the trie (Darts-clone): bits 0-7 the label, bit 8 set if a leaf follows, bits 10-30 the
// offset to the children, times 256 if bit 9 is set. Bit 31 marks a leaf; its other bits are a
// value.

#include "core/text/tokenizer/charsmap.h"

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

uint32_t read_unit(std::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) { return uint32_t(static_cast<unsigned char>(bytes[at + i])); };
  return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
}

// The shift is 8 if bit 9 is set.
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool has_leaf(uint32_t unit) { return (unit >> 8) & 1; }
uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xFF); }

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& where) {
  const uint32_t size = bytes.size() < 4 ? 0 : read_unit(bytes, 0);
  XRUN_CHECK(bytes.size() >= 4 && size <= bytes.size() - 4 && size % 4 == 0 && size > 0,
             "{}: the table of {} bytes claims a trie of {} bytes", where, bytes.size(), size);
  for (size_t at = 4; at < 4 + size_t(size); at += 4) units_.push_back(read_unit(bytes, at));
  texts_ = bytes.substr(4 + size_t(size));
  XRUN_CHECK(is_valid_utf8(texts_), "{}: the replacements of the table are not UTF-8", where);
}

std::optional<std::string_view> Charsmap::find(std::string_view part) const {
  uint32_t at = offset_of(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    // A double array: the child of a base under a byte is at base XOR byte, if the unit there has
    // the byte as its label.
    at ^= byte;
    if (byte == 0 || at >= units_.size()) return {};
    const uint32_t unit = units_[at];
    if (label_of(unit) != byte) return {};
    at ^= offset_of(unit);
    // The first leaf decides: the shortest prefix that the table knows.
    if (!has_leaf(unit)) continue;
    if (at >= units_.size()) return {};
    // The leaf's value is the offset of the replacement.
    const size_t begin = units_[at] & ~(1u << 31);
    if (begin >= texts_.size()) return {};
    const std::string_view rest = std::string_view(texts_).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }
  return {};
}

bool Charsmap::is_sound() const {
  if (texts_.empty() || texts_.back() != '\0') return false;
  std::vector<bool> seen(units_.size());
  std::vector<uint32_t> bases = {offset_of(units_[0])};  // bases of child units to visit
  while (!bases.empty()) {
    const uint32_t base = bases.back();
    bases.pop_back();
    // XOR with a byte stays within an aligned block of 256 units, which must exist.
    if ((base | 0xFF) >= units_.size()) return false;
    // A hostile table may contain cycles.
    if (seen[base]) continue;
    seen[base] = true;
    for (uint32_t byte = 1; byte < 256; ++byte) {
      const uint32_t at = base ^ byte, unit = units_[at];
      if (label_of(unit) != byte) continue;
      const uint32_t next = at ^ offset_of(unit);
      bases.push_back(next);
      if (!has_leaf(unit)) continue;
      if (next >= units_.size() || (units_[next] & ~(1u << 31)) >= texts_.size()) return false;
    }
  }
  return true;
}

std::optional<std::string> decode_base64(std::string_view text) {
  // The format writes no line breaks or blanks.
  if (text.size() % 4 != 0) return {};
  std::string out;
  for (size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    // "==" ends a group of one byte, "=" one of two.
    const int padding = !last || text[at + 3] != '=' ? 0 : text[at + 2] == '=' ? 2 : 1;
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) {
      const int value = i >= 4 - padding ? 0 : base64_value(text[at + size_t(i)]);
      if (value < 0) return {};
      bits = bits << 6 | uint32_t(value);
    }
    for (int i = 0; i < 3 - padding; ++i) out.push_back(char(bits >> (16 - 8 * i)));
  }
  return out;
}

}  // namespace xrun
