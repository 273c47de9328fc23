#pragma once
// Character classes of the regex engine in Hugging Face's tokenizers.

#include <cstdint>

namespace xrun {

// General categories, in the order of their names; the generated table has the same order.
enum class Category : uint8_t {
  kCn,
  kCc,
  kCf,
  kCo,
  kLl,
  kLm,
  kLo,
  kLt,
  kLu,
  kMc,
  kMe,
  kMn,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPe,
  kPf,
  kPi,
  kPo,
  kPs,
  kSc,
  kSk,
  kSm,
  kSo,
  kZl,
  kZp,
  kZs
};

// Bits of unicode_properties.
constexpr uint8_t kCategoryBits = 31;  // a Category
constexpr uint8_t kIsSpace = 32;       // \s
constexpr uint8_t kNfcUnstable = 64;   // NFC may change it, or compose it with the character before
constexpr uint8_t kNewer = 128;        // its category differs from the one in Unicode 14

// Returns the category and the bits of a code point.
uint8_t unicode_properties(uint32_t code_point);

inline Category category(uint32_t code_point) {
  return static_cast<Category>(unicode_properties(code_point) & kCategoryBits);
}

// \p{L}, \p{N}, \s, or anything else.
enum class CharKind : uint8_t { kOther, kLetter, kNumber, kSpace };
CharKind char_kind(uint32_t code_point);

// \w of Rust's regex: letters, marks, decimal digits, connectors, joiners, enclosed letters.
bool is_word(uint32_t code_point);

// Rust's char::is_numeric, which the Digits pre-tokenizer uses: \p{N} of a newer Unicode.
bool is_numeric(uint32_t code_point);

}  // namespace xrun
