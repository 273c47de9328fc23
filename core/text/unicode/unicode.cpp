// Two-level tables of 128-character blocks; the upper planes follow a rule.

#include "core/text/unicode/unicode.h"

#include <algorithm>

#include "core/text/unicode/unicode_data.h"

namespace xrun {

namespace {

constexpr uint32_t kBlock = 128;
constexpr uint32_t kTableEnd = 0x40000;  // the table covers planes 0 to 3

// The upper planes: tags, variation selectors, private use. The generator checks this rule.
Category upper_category(uint32_t c) {
  if (c == 0xE0001 || (c >= 0xE0020 && c <= 0xE007F)) return Category::kCf;
  if (c >= 0xE0100 && c <= 0xE01EF) return Category::kMn;
  if (c >= 0xF0000 && c < 0x110000 && (c & 0xFFFF) < 0xFFFE) return Category::kCo;
  return Category::kCn;
}

}  // namespace

uint8_t unicode_properties(uint32_t c) {
  using namespace unicode_data;
  if (c >= kTableEnd) return static_cast<uint8_t>(upper_category(c));
  // Equal blocks are stored once, and a block holds indices into the few combinations of properties
  // that occur.
  const size_t block = kBlockOf[std::min<size_t>(c / kBlock, kBlockOfSize - 1)];
  return kPalette[static_cast<uint8_t>(kBlocks[block * kBlock + c % kBlock])];
}

CharKind char_kind(uint32_t code_point) {
  const uint8_t bits = unicode_properties(code_point);
  if (bits & kIsSpace) return CharKind::kSpace;
  const Category c = static_cast<Category>(bits & kCategoryBits);
  if (c >= Category::kLl && c <= Category::kLu) return CharKind::kLetter;
  if (c >= Category::kNd && c <= Category::kNo) return CharKind::kNumber;
  return CharKind::kOther;
}

bool is_word(uint32_t c) {
  switch (category(c)) {
    case Category::kLl:
    case Category::kLm:
    case Category::kLo:
    case Category::kLt:
    case Category::kLu:
    case Category::kMc:
    case Category::kMe:
    case Category::kMn:
    case Category::kNd:
    case Category::kNl:
    case Category::kPc: return true;
    default: break;
  }
  // UTS #18 adds Join_Control and the enclosed letters of Other_Alphabetic.
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool is_numeric(uint32_t c) {
  using namespace unicode_data;
  if (char_kind(c) == CharKind::kNumber) return true;
  // Characters of other categories with a numeric value, such as the ideographs for one to ten.
  return std::binary_search(kExtraDigits, kExtraDigits + kExtraDigitsSize, c);
}

}  // namespace xrun
