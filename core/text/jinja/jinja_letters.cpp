// Letter case as in Python 3.11, which follows Unicode 14. A Greek sigma at the end of a word has a
// lower case of its own.

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_strings.h"
#include "core/text/unicode/letter_case.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun::jinja {

namespace {

struct PointRange {
  uint32_t first;
  uint32_t last;
};

// Other_Lowercase and Other_Uppercase of Unicode 14, and its digits that are not decimal.
// Sorted, for within().
constexpr PointRange kOtherCased[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
    {0x2E0, 0x2E4},     {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},
    {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
    {0x2090, 0x209C},   {0x2160, 0x217F},   {0x24B6, 0x24E9},   {0x2C7C, 0x2C7D},
    {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
    {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
constexpr PointRange kOtherDigit[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
    {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};

template <size_t size>
bool within(const PointRange (&ranges)[size], uint32_t point) {
  // The first range that does not end before the point.
  const PointRange* range =
      std::lower_bound(ranges, ranges + size, point,
                       [](const PointRange& a, uint32_t value) { return a.last < value; });
  return range != ranges + size && point >= range->first;
}

// Lower, upper or title case.
bool is_cased_point(uint32_t point) {
  const Category kind = category(point);
  return kind == Category::kLl || kind == Category::kLu || kind == Category::kLt ||
         within(kOtherCased, point);
}

// Unicode's Case_Ignorable: characters that do not end a word when a sigma's context is examined.
bool is_case_ignorable_point(uint32_t point) {
  static constexpr uint32_t kPunctuation[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                              0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                              0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  switch (category(point)) {
    case Category::kMn:
    case Category::kMe:
    case Category::kCf:
    case Category::kLm:
    case Category::kSk: return true;
    default: return std::binary_search(std::begin(kPunctuation), std::end(kPunctuation), point);
  }
}

// Returns true if the sigma at `at` ends a word: a letter before it, none after it.
bool ends_word(std::string_view bytes, size_t at) {
  // The nearest character before it that is not ignored.
  uint32_t before = 0;
  for (size_t begin = at; begin > 0;) {
    begin = utf8_before(bytes, begin);
    before = read_utf8(bytes, begin).value;
    if (!is_case_ignorable_point(before)) break;
  }
  if (!is_cased_point(before) || is_case_ignorable_point(before)) return false;
  for (size_t next = at + read_utf8(bytes, at).size; next < bytes.size();) {
    const CodePoint point = read_utf8(bytes, next);
    if (!is_case_ignorable_point(point.value)) return !is_cased_point(point.value);
    next += point.size;
  }
  return true;
}

// Appends the lower case of the code point at bytes[at]; a sigma at the end of a word has its own.
void append_lower_in(std::string& out, uint32_t point, std::string_view bytes, size_t at) {
  constexpr uint32_t kSigma = 0x3A3;
  if (point == kSigma) return append_utf8(out, ends_word(bytes, at) ? 0x3C2 : 0x3C3);
  append_lower(out, point);
}

// Appends the upper case, which is the title case too. No public template needs it beyond roles, so
// letters whose case is irregular are refused.
void append_upper_of(std::string& out, uint32_t point) {
  const std::optional<uint32_t> upper = upper_case(point);
  XRUN_JINJA_CHECK(upper.has_value(),
                   "the upper case of U+{:04X} is not supported in chat templates", point);
  append_utf8(out, *upper);
}

// Jinja's title filter splits words at ([-\s({\[<]+).
bool is_before_word(uint32_t point) {
  return is_space_point(point) ||
         (point < 0x80 && point != 0 &&
          std::string_view("-({[<").find(static_cast<char>(point)) != std::string_view::npos);
}

}  // namespace

TextPtr upper_text(const Text& text) {
  return map_text(text,
                  [](std::string& out, uint32_t point, size_t) { append_upper_of(out, point); });
}

TextPtr lower_text(const Text& text) {
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    append_lower_in(out, point, text.bytes, at);
  });
}

TextPtr capitalize_text(const Text& text) {
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    at == 0 ? append_upper_of(out, point) : append_lower_in(out, point, text.bytes, at);
  });
}

// Python's str.title(): a letter is lower case only after another letter.
TextPtr title_text(const Text& text) {
  bool inside = false;
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    inside ? append_lower_in(out, point, text.bytes, at) : append_upper_of(out, point);
    inside = is_cased_point(point);
  });
}

// Jinja lowers a word without its first letter, so a sigma's context is only the other letters.
TextPtr title_words(const Text& text) {
  const std::string_view bytes = text.bytes;
  bool begins = true;
  size_t begin = 0;
  size_t end = 0;  // of the word's other letters
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    if (begins) {
      append_upper_of(out, point);
      begin = end = at + read_utf8(bytes, at).size;
      while (end < bytes.size() && !is_before_word(read_utf8(bytes, end).value)) {
        end += read_utf8(bytes, end).size;
      }
    } else {
      append_lower_in(out, point, bytes.substr(begin, end - begin), at - begin);
    }
    begins = is_before_word(point);
  });
}

// Python's str.isspace(): White_Space and the separators U+001C to U+001F.
bool is_space_point(uint32_t point) {
  return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
         point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
         point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F ||
         point == 0x3000;
}

bool is_digit_point(uint32_t point) {
  return category(point) == Category::kNd || within(kOtherDigit, point);
}

int decimal_value(uint32_t point) {
  const auto is_decimal = [](uint32_t one) { return category(one) == Category::kNd; };
  if (!is_decimal(point)) return -1;
  // Digits come in tens that start at zero; adjacent ranges are further tens.
  uint32_t first = point;
  while (first > 0 && is_decimal(first - 1)) --first;
  return static_cast<int>((point - first) % 10);
}

}  // namespace xrun::jinja
