#include "core/data/rows/row_parse.h"

#include "core/base/count_text.h"
#include "core/base/error.h"
#include "core/base/json_fault.h"
#include "core/base/utf8.h"
#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

bool is_high(int unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(int unit) { return unit >= 0xDC00 && unit < 0xE000; }

std::string with_plain_line_ends(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find("\r\n", at), text.size());
    out.append(text.substr(at, end - at));
    at = end;
    if (at == text.size()) break;
    out += '\n';
    at += 2;
  }
  return out;
}

// How many values a row has at most: one, and one behind each comma and opening bracket.
size_t count_values(std::string_view text) {
  size_t count = 1;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    count += c == ',' || c == '[' || c == '{';
    if (c != '"') continue;
    for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\';
  }
  return count;
}

Json parse_text(std::string_view text, const RawRow& row, const std::string& place,
                int64_t& repairs) {
  const std::string_view file = std::string_view(place).substr(0, place.rfind(':'));
  try {
    return parse_json(text, file, row.at.line, row.column);
  } catch (const Error& error) {
    int64_t halves = 0;
    const std::string repaired = repair_surrogate_escapes(text, halves);
    if (halves == 0) throw RowRefusal("malformed_json", error.what());
    repairs += halves;
    return parse_text(repaired, row, place, repairs);
  }
}

}  // namespace

std::string repair_surrogate_escapes(std::string_view text, int64_t& repairs) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t size = 1;
    if (text[at] == '\\') {
      const int unit = json_escape_unit(text, at);
      size = unit < 0 ? 2 : 6;
      if (is_high(unit) && is_low(json_escape_unit(text, at + 6))) {
        size = 12;
      } else if (is_high(unit) || is_low(unit)) {
        out += "\\ufffd";
        ++repairs;
        at += 6;
        continue;
      }
    }
    out += text.substr(at, size);
    at += size;
  }
  return out;
}

Json parse_row(const RawRow& row, const std::string& place, int64_t& repairs) {
  std::string repaired;
  std::string_view text = row.text;
  if (!is_valid_utf8(text)) {
    repaired = repair_utf8(text, &repairs);
    text = repaired;
  }
  if (row.form == RowForm::kJson) {
    // A value takes a byte, so that few rows are long enough to be counted.
    const size_t values = text.size() > kMaxRowValues ? count_values(text) : 0;
    if (values > kMaxRowValues) {
      throw RowRefusal("too_long", fmt::format("the row has up to {} JSON values, at most {} are "
                                               "read; make more rows of it",
                                               count_text(static_cast<int64_t>(values)),
                                               count_text(int64_t{kMaxRowValues})));
    }
    return parse_text(text, row, place, repairs);
  }
  Json value = Json::object();
  value.set("text", with_plain_line_ends(text));
  return value;
}

}  // namespace xrun
