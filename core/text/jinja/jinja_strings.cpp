// Everything is cut out of the original or appended piece by piece, so that marks survive.

#include "core/text/jinja/jinja_strings.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_points.h"
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

// The last place of `part` that ends at or before `end`, or npos.
size_t find_last(std::string_view bytes, std::string_view part, size_t end) {
  if (part.size() > end) return std::string_view::npos;
  return bytes.rfind(part, end - part.size());
}

}  // namespace

TextPtr strip_text(const TextPtr& text, Side side, const Text* chars) {
  const std::string& bytes = text->bytes;
  const auto strips = [&](uint32_t point) {
    return chars == nullptr ? is_space_point(point) : has_point(*chars, point);
  };
  size_t begin = 0;
  size_t end = bytes.size();
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
  return slice_text(text, begin, end);
}

namespace {

// Pieces as byte ranges, paid for one by one. More than a list holds come to nothing anyway.
class Cuts {
 public:
  explicit Cuts(Budget& budget) : budget_(budget) {}
  void add(size_t begin, size_t end) {
    budget_.charge(1);
    XRUN_JINJA_CHECK(ranges_.size() < kMaxListItems, "a list grows beyond {} items", kMaxListItems);
    ranges_.emplace_back(begin, end);
  }
  int64_t size() const { return static_cast<int64_t>(ranges_.size()); }
  void reverse() { std::reverse(ranges_.begin(), ranges_.end()); }
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
  while (true) {
    skip(true);
    if (at >= bytes.size()) return;
    const size_t begin = at;
    if (most >= 0 && cuts.size() == most) {
      return cuts.add(begin, bytes.size());
    }
    skip(false);
    cuts.add(begin, at);
  }
}

// The same from the right; the pieces come in the order of the text.
void space_cuts_from_right(const std::string& bytes, int64_t most, Cuts& cuts) {
  size_t at = bytes.size();
  const auto skip = [&](bool space) {
    while (at > 0) {
      const size_t last = utf8_before(bytes, at);
      if (is_space_point(read_utf8(bytes, last).value) != space) break;
      at = last;
    }
  };
  while (true) {
    skip(true);
    if (at == 0) break;
    const size_t end = at;
    if (most >= 0 && cuts.size() == most) {
      cuts.add(0, end);
      break;
    }
    skip(false);
    cuts.add(at, end);
  }
  cuts.reverse();
}

void separator_cuts(const std::string& bytes, std::string_view separator, int64_t most,
                    Cuts& cuts) {
  size_t begin = 0;
  while (most < 0 || cuts.size() < most) {
    const size_t found = find_bytes(bytes, separator, begin);
    if (found == std::string::npos) break;
    cuts.add(begin, found);
    begin = found + separator.size();
  }
  cuts.add(begin, bytes.size());
}

void separator_cuts_from_right(const std::string& bytes, std::string_view separator, int64_t most,
                               Cuts& cuts) {
  size_t end = bytes.size();
  while (most < 0 || cuts.size() < most) {
    const size_t found = find_last(bytes, separator, end);
    if (found == std::string::npos) break;
    cuts.add(found + separator.size(), end);
    end = found;
  }
  cuts.add(0, end);
  cuts.reverse();
}

}  // namespace

std::vector<TextPtr> split_text(const TextPtr& text, const Text* separator, int64_t most,
                                Budget& budget, bool from_right) {
  Cuts cuts(budget);
  if (separator == nullptr) {
    (from_right ? space_cuts_from_right : space_cuts)(text->bytes, most, cuts);
  } else {
    XRUN_JINJA_CHECK(!separator->bytes.empty(), "empty separator");
    (from_right ? separator_cuts_from_right : separator_cuts)(text->bytes, separator->bytes, most,
                                                              cuts);
  }
  return cuts.pieces(text);
}

std::vector<TextPtr> split_lines(const TextPtr& text, bool keep_ends, Budget& budget) {
  Cuts lines(budget);
  const std::string& bytes = text->bytes;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = read_utf8(bytes, at);
    const size_t end = at;
    at += point.size;
    const bool breaks = (point.value >= 0x0A && point.value <= 0x0D) ||
                        (point.value >= 0x1C && point.value <= 0x1E) || point.value == 0x85 ||
                        point.value == 0x2028 || point.value == 0x2029;
    if (!breaks) continue;
    if (point.value == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    lines.add(begin, keep_ends ? at : end);
    begin = at;
  }
  if (begin < bytes.size()) lines.add(begin, bytes.size());
  return lines.pieces(text);
}

TextPtr replace_text(const Text& text, const Text& from, const Text& to, int64_t most,
                     Budget& budget) {
  int64_t places = count_of(text, from.bytes);
  if (most >= 0) places = std::min(places, most);
  const size_t kept = text.bytes.size() - static_cast<size_t>(places) * from.bytes.size();
  charge_copies(budget, places, to, kept);
  budget.charge(places);  // the pieces between them
  TextBuilder out;
  size_t at = 0;
  for (int64_t count = 0; count < places; ++count) {
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
    out.append(to, mark_at(text, found).turn);
    at = found + from.bytes.size();
  }
  out.append(text, at, text.bytes.size());
  return out.take();
}

TextPtr join_list(const Text& separator, const std::vector<TextPtr>& parts, Budget& budget) {
  size_t size = 0;
  for (const TextPtr& part : parts) size += part->bytes.size();
  charge_copies(budget, static_cast<int64_t>(parts.size()), separator, size);
  TextBuilder out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(*parts[i]);
  }
  return out.take();
}

TextPtr pad_text(const TextPtr& text, int64_t width, const Text& fill, Side side) {
  XRUN_JINJA_CHECK(text_length(fill) == 1, "The fill character must be exactly one character long");
  const int64_t missing = width - text_length(*text);
  if (missing <= 0) return text;
  XRUN_JINJA_CHECK(missing <= 1'000'000, "the text is padded to more than 1,000,000 characters");
  // str.center puts the odd one to the left where the width is odd.
  const int64_t left = side == Side::kLeft    ? missing
                       : side == Side::kRight ? 0
                                              : missing / 2 + (missing & width & 1);
  TextBuilder out;
  for (int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(*text);
  for (int64_t i = left; i < missing; ++i) out.append(fill);
  return out.take();
}

int64_t count_of(const Text& text, std::string_view part) {
  if (part.empty()) return text_length(text) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = find_bytes(text.bytes, part, at)) != std::string::npos;
       at += part.size()) {
    ++count;
  }
  return count;
}

}  // namespace xrun::jinja
