// Case by code points, with the one rule of Unicode that looks at what stands around: a sigma at
// the end of a word.

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_points.h"
#include "core/text/jinja/jinja_strings.h"
#include "core/text/unicode/letter_case.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun::jinja {

TextPtr map_text(const Text& text, const PointChange& change) {
  TextBuilder out;
  size_t at = 0;
  for (const Run& run : text.runs) {
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

constexpr uint32_t kSigma = 0x3A3;

// Whether the sigma at `at` ends a word: letters before it, none behind.
bool ends_word(std::string_view bytes, size_t at) {
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

bool has_only(std::string_view bytes, bool wanted(uint32_t), bool other(uint32_t)) {
  bool some = false;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = read_utf8(bytes, at);
    at += point.size;
    const bool cased = is_cased_point(point.value);
    if (cased && (other(point.value) || !wanted(point.value))) return false;
    some = some || cased;
  }
  return some;
}

}  // namespace

void append_lower_in(std::string& out, uint32_t point, std::string_view bytes, size_t at) {
  if (point == kSigma) return append_utf8(out, ends_word(bytes, at) ? 0x3C2 : 0x3C3);
  append_lower(out, point);
}

bool is_lower_text(std::string_view bytes) {
  return has_only(bytes, is_lower_point, is_upper_point);
}
bool is_upper_text(std::string_view bytes) {
  return has_only(bytes, is_upper_point, is_lower_point);
}

TextPtr upper_text(const Text& text) {
  return map_text(text, [](std::string& out, uint32_t point, size_t) { append_upper(out, point); });
}

TextPtr lower_text(const Text& text) {
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    append_lower_in(out, point, text.bytes, at);
  });
}

// Full case folding is the lower case of the upper case, but for these.
TextPtr fold_text(const Text& text) {
  return map_text(text, [](std::string& out, uint32_t point, size_t) {
    const bool cherokee = point >= 0x13A0 && point <= 0x13F5;
    if (cherokee || point == 0x131) return append_utf8(out, point);  // capitals; the dotless i
    if (point >= 0x13F8 && point <= 0x13FD) return append_utf8(out, point - 8);
    if (point >= 0xAB70 && point <= 0xABBF) return append_utf8(out, point - 0xAB70 + 0x13A0);
    if (point == 0x1E9E) {
      out += "ss";
      return;
    }
    std::string upper;
    append_upper(upper, point);
    for (size_t at = 0; at < upper.size();) {
      const CodePoint one = read_utf8(upper, at);
      append_lower(out, one.value);
      at += one.size;
    }
  });
}

TextPtr capitalize_text(const Text& text) {
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    at == 0 ? append_title(out, point) : append_lower_in(out, point, text.bytes, at);
  });
}

TextPtr title_text(const Text& text) {
  bool inside = false;
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    inside ? append_lower_in(out, point, text.bytes, at) : append_title(out, point);
    inside = is_cased_point(point);
  });
}

}  // namespace xrun::jinja
