// Every result is cut out of the original or appended piece by piece, so that marks survive.

#include "core/text/jinja/jinja_strings.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/base/utf8.h"
#include "core/text/unicode/letter_case.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun::jinja {

namespace {

bool has_point(const Text& chars, uint32_t wanted) {
  for (size_t at = 0; at < chars.bytes.size();) {
    const CodePoint point = read_utf8(chars.bytes, at);
    if (point.value == wanted) return true;
    at += point.size;
  }
  return false;
}

int64_t count_of(const Text& text, std::string_view needle) {
  // "" is found before every code point and at the end.
  if (needle.empty()) return text_length(text) + 1;
  int64_t count = 0;
  // Without overlaps, as Python counts.
  for (size_t at = 0; (at = find_bytes(text.bytes, needle, at)) != std::string::npos;
       at += needle.size()) {
    ++count;
  }
  return count;
}

}  // namespace

TextPtr strip_text(const TextPtr& text, Side side, const Text* chars) {
  const std::string& bytes = text->bytes;
  const auto strips = [&](uint32_t point) {
    return chars == nullptr ? is_space_point(point) : has_point(*chars, point);
  };
  size_t begin = 0;
  size_t end = bytes.size();
  // Side is a set of bits: 1 the left, 2 the right side.
  if (static_cast<int>(side) & 1) {
    while (begin < end) {
      const CodePoint point = read_utf8(bytes, begin);
      if (!strips(point.value)) break;
      begin += point.size;
    }
  }
  if (static_cast<int>(side) & 2) {
    while (end > begin) {
      const size_t last = utf8_before(bytes, end);
      if (!strips(read_utf8(bytes, last).value)) break;
      end = last;
    }
  }
  // An unchanged text is shared, not copied.
  return slice_text(text, begin, end);
}

namespace {

// Pieces as byte ranges, each charged as it is added.
class Cuts {
 public:
  explicit Cuts(Budget& budget) : budget_(budget) {}
  void add(size_t begin, size_t end) {
    budget_.charge(1);
    XRUN_JINJA_CHECK(ranges_.size() < kMaxListItems, "a list grows beyond {} items", kMaxListItems);
    ranges_.emplace_back(begin, end);
  }
  int64_t size() const { return static_cast<int64_t>(ranges_.size()); }
  std::vector<TextPtr> pieces(const TextPtr& text) const {
    std::vector<TextPtr> out;
    out.reserve(ranges_.size());
    for (const auto& [begin, end] : ranges_) out.push_back(slice_text(text, begin, end));
    return out;
  }

 private:
  Budget& budget_;
  std::vector<std::pair<size_t, size_t>> ranges_;
};

void space_cuts(const std::string& bytes, int64_t most, Cuts& cuts) {
  size_t at = 0;
  const auto skip = [&](bool space) {
    while (at < bytes.size()) {
      const CodePoint point = read_utf8(bytes, at);
      if (is_space_point(point.value) != space) break;
      at += point.size;
    }
  };
  // Runs of white space separate; none gives an empty piece.
  while (true) {
    skip(true);
    if (at >= bytes.size()) return;
    const size_t begin = at;
    // The rest is one piece, its trailing white space included.
    if (most >= 0 && cuts.size() == most) {
      return cuts.add(begin, bytes.size());
    }
    skip(false);
    cuts.add(begin, at);
  }
}

void separator_cuts(const std::string& bytes, std::string_view separator, int64_t most,
                    Cuts& cuts) {
  // Adjacent separators give empty pieces, as Python's split(sep) does.
  size_t begin = 0;
  while (most < 0 || cuts.size() < most) {
    const size_t found = find_bytes(bytes, separator, begin);
    if (found == std::string::npos) break;
    cuts.add(begin, found);
    begin = found + separator.size();
  }
  cuts.add(begin, bytes.size());
}

}  // namespace

std::vector<TextPtr> split_text(const TextPtr& text, const Text* separator, int64_t most,
                                Budget& budget) {
  Cuts cuts(budget);
  if (separator == nullptr) {
    space_cuts(text->bytes, most, cuts);
  } else {
    XRUN_JINJA_CHECK(!separator->bytes.empty(), "empty separator");
    separator_cuts(text->bytes, separator->bytes, most, cuts);
  }
  return cuts.pieces(text);
}

std::vector<TextPtr> split_lines(const TextPtr& text, Budget& budget) {
  Cuts lines(budget);
  const std::string& bytes = text->bytes;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = read_utf8(bytes, at);
    const size_t end = at;
    at += point.size;
    // The line ends of Python's splitlines, more than "\n".
    const bool breaks = (point.value >= 0x0A && point.value <= 0x0D) ||
                        (point.value >= 0x1C && point.value <= 0x1E) || point.value == 0x85 ||
                        point.value == 0x2028 || point.value == 0x2029;
    if (!breaks) continue;
    // CR LF is one line end.
    if (point.value == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    lines.add(begin, end);
    begin = at;
  }
  // Text behind the last line end is a line; an empty rest is not.
  if (begin < bytes.size()) lines.add(begin, bytes.size());
  return lines.pieces(text);
}

TextPtr replace_text(const Text& text, const Text& from, const Text& to, int64_t most,
                     Budget& budget) {
  int64_t count = count_of(text, from.bytes);
  if (most >= 0) count = std::min(count, most);
  // The bytes that stay.
  const size_t rest = text.bytes.size() - static_cast<size_t>(count) * from.bytes.size();
  // Charged by the size of the result before any of it is built.
  charge_copies(budget, count, to, rest);
  budget.charge(count);  // the pieces in between
  TextBuilder out;
  size_t at = 0;
  for (int64_t done = 0; done < count; ++done) {
    size_t found = find_bytes(text.bytes, from.bytes, at);
    if (from.bytes.empty()) {
      // Python puts the replacement before every code point and at the end.
      out.append(to, mark_at(text, at).turn);
      if (at >= text.bytes.size()) return out.take();
      found = at + read_utf8(text.bytes, at).size;
      out.append(text, at, found);
      at = found;
      continue;
    }
    out.append(text, at, found);
    // The replacement belongs to the generation block of the text it replaces.
    out.append(to, mark_at(text, found).turn);
    at = found + from.bytes.size();
  }
  out.append(text, at, text.bytes.size());
  return out.take();
}

TextPtr join_list(const Text& separator, const std::vector<TextPtr>& texts, Budget& budget) {
  size_t size = 0;
  for (const TextPtr& text : texts) size += text->bytes.size();
  charge_copies(budget, static_cast<int64_t>(texts.size()), separator, size);
  TextBuilder out;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(*texts[i]);
  }
  return out.take();
}

TextPtr map_text(const Text& text, const PointChange& change) {
  TextBuilder out;
  size_t at = 0;
  // Run by run, so that each keeps its mark although its size may change.
  for (const MarkedRun& run : text.runs) {
    std::string changed;
    while (at < run.end) {
      const CodePoint point = read_utf8(text.bytes, at);
      change(changed, point.value, at);
      at += point.size;
    }
    out.append(changed, run.mark);
  }
  return out.take();
}

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

// Unicode's Case_Ignorable: a word continues across these when a sigma looks at its context.
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

// True if the sigma at `at` ends a word: a letter before it, none after it.
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

TextPtr title_text(const Text& text) {
  bool inside = false;
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    inside ? append_lower_in(out, point, text.bytes, at) : append_upper_of(out, point);
    inside = is_cased_point(point);
  });
}

// Jinja lowers a word without its first letter, so a sigma's context is the other letters alone.
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
