// Invalid text never ends a build: bytes that are not UTF-8 and halves of surrogate pairs become
// U+FFFD and are counted as repairs, anything else that is not JSON is a bad row.

#include "core/data/rows/row_parse.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/data/rows/byte_stream.h"
#include "core/data/rows/data_fault.h"

namespace xrun {

namespace {

bool is_high(int unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(int unit) { return unit >= 0xDC00 && unit < 0xE000; }

// The text of paragraph files is kept as it is, so a CR would be trained as a token.
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

// Returns an upper bound on a row's values, one plus the commas and opening brackets. Called before
// the row becomes a tree, which may not fit into memory.
size_t count_values(std::string_view text) {
  size_t count = 1;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    count += c == ',' || c == '[' || c == '{';
    if (c != '"') continue;
    // A backslash escapes the byte after it, so a quote there does not end the string.
    for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\';
  }
  return count;
}

Json parse_text(std::string_view text, const RawRow& row, const std::string& location,
                int64_t& repairs) {
  // "FILE:LINE"; parse_json adds the line and the column of the fault itself.
  const std::string_view file = std::string_view(location).substr(0, location.rfind(':'));
  try {
    return parse_json(text, file, row.at.line, row.column);
  } catch (const Error& error) {
    int64_t halves = 0;
    const std::string repaired = repair_surrogate_escapes(text, halves);
    if (halves == 0) throw RowRefusal("malformed_json", error.what());
    repairs += halves;
    // Recurses at most once: no halves are left.
    return parse_text(repaired, row, location, repairs);
  }
}

// "prompt,chosen,rejected": only words and commas.
bool is_csv_header(std::string_view line) {
  return std::all_of(line.begin(), line.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == ',' || c == ' ' || c == '"';
  });
}

// Throws inside on bad JSON, so it is used only for hints after a failure.
bool is_json(std::string_view line) {
  try {
    parse_json(line, "line");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string repair_surrogate_escapes(std::string_view text, int64_t& repairs) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t size = 1;
    if (text[at] == '\\') {
      const int unit = utf16_escape(text, at);
      // Any other escape has two bytes, so an escaped backslash is skipped whole.
      size = unit < 0 ? 2 : 6;
      if (is_high(unit) && is_low(utf16_escape(text, at + 6))) {
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

Json parse_row(const RawRow& row, const std::string& location, int64_t& repairs) {
  std::string repaired;
  std::string_view text = row.text;
  if (!is_valid_utf8(text)) {
    repaired = repair_utf8(text, &repairs);
    text = repaired;
  }
  if (row.form == RowForm::kJson) {
    // A value takes at least one byte, so only long rows need to be counted.
    const size_t values = text.size() > kMaxRowValues ? count_values(text) : 0;
    if (values > kMaxRowValues) {
      throw RowRefusal(kTooLongReason,
                       fmt::format("the row has up to {} JSON values, at most {} are "
                                   "read; split it into several rows",
                                   count_text(static_cast<int64_t>(values)),
                                   count_text(int64_t{kMaxRowValues})));
    }
    return parse_text(text, row, location, repairs);
  }
  Json value = Json::object();
  value.set("text", with_plain_line_ends(text));
  return value;
}

// Guesses from the first bytes.
std::string row_form_hint(const std::string& path) {
  // Only .jsonl files are examined: other names already say how their rows are split.
  if (!content_name(path).ends_with(".jsonl")) return "";
  const std::string text = beginning_of_content(path);
  if (text.starts_with(kGzipMagic)) return fmt::format("; it is compressed: name it {}.gz", path);
  if (text.starts_with(kZstdMagic)) return fmt::format("; it is compressed: name it {}.zst", path);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  const size_t line_end = text.find('\n', first);
  const bool goes_on = line_end != std::string::npos;
  const std::string_view line = trimmed(std::string_view(text).substr(first, line_end - first));
  if (line.starts_with("{'")) {
    return "; its rows are Python dicts, not JSON: write each with json.dumps";
  }
  if (line.find(',') != std::string_view::npos && is_csv_header(line)) {
    return fmt::format(
        "; its first line looks like the header of a CSV file: name it {}.csv, and "
        "the next run prints the command that converts it",
        content_name(path).substr(0, content_name(path).size() - 6));
  }
  // A first line that is JSON by itself would be a row that is an array, another fault.
  if (text[first] == '[' && (goes_on ? !is_json(line) : true)) {
    return fmt::format("; the file is one array of rows: name it {}.json{}",
                       content_name(path).substr(0, content_name(path).size() - 6),
                       path.substr(content_name(path).size()));
  }
  if (text[first] != '{' || !goes_on || line.ends_with('}') || is_json(line)) return "";
  return "; its objects run over several lines, and a row is one line: rewrite it with jq -c .";
}

}  // namespace xrun
