// The general categories, and what Unicode lists beside them (Other_Lowercase, Other_Uppercase,
// Numeric_Type, Word_Break), as of Unicode 14.

#include "core/text/jinja/jinja_points.h"

#include <algorithm>
#include <iterator>

#include "core/text/unicode/unicode.h"

namespace xrun::jinja {

namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

constexpr Range kOtherLower[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},    {0x2E0, 0x2E4},
    {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},  {0x1D9B, 0x1DBF},
    {0x2071, 0x2071},   {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2170, 0x217F},  {0x24D0, 0x24E9},
    {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},  {0xAB5C, 0xAB5F},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}};

constexpr Range kOtherUpper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

constexpr Range kOtherDigit[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
    {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};

// Ideographs that are numbers: one, two, a hundred, ...
constexpr uint32_t kIdeographs[] = {
    0x3405,  0x3483,  0x382A,  0x3B4D,  0x4E00,  0x4E03,  0x4E07,  0x4E09,  0x4E5D,
    0x4E8C,  0x4E94,  0x4E96,  0x4EBF,  0x4EC0,  0x4EDF,  0x4EE8,  0x4F0D,  0x4F70,
    0x5104,  0x5146,  0x5169,  0x516B,  0x516D,  0x5341,  0x5343,  0x5344,  0x5345,
    0x534C,  0x53C1,  0x53C2,  0x53C3,  0x53C4,  0x56DB,  0x58F1,  0x58F9,  0x5E7A,
    0x5EFE,  0x5EFF,  0x5F0C,  0x5F0D,  0x5F0E,  0x5F10,  0x62FE,  0x634C,  0x67D2,
    0x6F06,  0x7396,  0x767E,  0x8086,  0x842C,  0x8CAE,  0x8CB3,  0x8D30,  0x9621,
    0x9646,  0x964C,  0x9678,  0x96F6,  0xF96B,  0xF973,  0xF978,  0xF9B2,  0xF9D1,
    0xF9D3,  0xF9FD,  0x20001, 0x20064, 0x200E2, 0x20121, 0x2092A, 0x20983, 0x2098C,
    0x2099C, 0x20AEA, 0x20AFD, 0x20B19, 0x22390, 0x22998, 0x23B1B, 0x2626D, 0x2F890};

// Punctuation inside of words.
constexpr uint32_t kIgnorable[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                   0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                   0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};

template <size_t size>
bool within(const Range (&ranges)[size], uint32_t point) {
  const Range* range = std::lower_bound(
      ranges, ranges + size, point, [](const Range& a, uint32_t value) { return a.last < value; });
  return range != ranges + size && point >= range->first;
}

template <size_t size>
bool among(const uint32_t (&points)[size], uint32_t point) {
  return std::binary_search(points, points + size, point);
}

}  // namespace

bool is_space_point(uint32_t point) {
  return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
         point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
         point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F ||
         point == 0x3000;
}

bool is_alpha_point(uint32_t point) { return char_kind(point) == CharKind::kLetter; }
bool is_decimal_point(uint32_t point) { return category(point) == Category::kNd; }
bool is_digit_point(uint32_t point) {
  return is_decimal_point(point) || within(kOtherDigit, point);
}
bool is_numeric_point(uint32_t point) {
  return char_kind(point) == CharKind::kNumber || among(kIdeographs, point);
}
bool is_alnum_point(uint32_t point) { return is_alpha_point(point) || is_numeric_point(point); }

bool is_lower_point(uint32_t point) {
  return category(point) == Category::kLl || within(kOtherLower, point);
}
bool is_upper_point(uint32_t point) {
  return category(point) == Category::kLu || within(kOtherUpper, point);
}
bool is_cased_point(uint32_t point) {
  return is_lower_point(point) || is_upper_point(point) || category(point) == Category::kLt;
}

bool is_case_ignorable_point(uint32_t point) {
  switch (category(point)) {
    case Category::kMn:
    case Category::kMe:
    case Category::kCf:
    case Category::kLm:
    case Category::kSk: return true;
    default: return among(kIgnorable, point);
  }
}

int decimal_value(uint32_t point) {
  if (!is_decimal_point(point)) return -1;
  // Digits come in tens from zero on, and what touches a ten is another ten.
  uint32_t first = point;
  while (first > 0 && is_decimal_point(first - 1)) --first;
  return static_cast<int>((point - first) % 10);
}

}  // namespace xrun::jinja
