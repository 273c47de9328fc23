// Every result is cut out of the original or appended piece by piece, so that marks survive.

#include "core/text/jinja/jinja_strings.h"

#include <algorithm>

#include "core/base/utf8.h"
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

TextPtr strip_text(const TextPtr& text, StripSide side, const Text* chars) {
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
  // A run of white space is one separator, so no piece is empty.
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
  // Text after the last line end is a line unless it is empty.
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

}  // namespace xrun::jinja
