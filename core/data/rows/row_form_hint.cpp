#include "core/data/rows/row_form_hint.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/rows/byte_stream.h"

namespace xrun {

namespace {

constexpr size_t kLookedAt = 1 << 16;  // of the content's beginning

bool is_json(std::string_view line) {
  try {
    parse_json(line, "line");
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Where the content begins; "" if it cannot be read: the hint goes with a message that matters
// more.
std::string beginning_of(const std::string& path) {
  try {
    std::string text(kLookedAt, '\0');
    text.resize(open_byte_stream(path, path)->read(text.data(), text.size()));
    return text;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string row_form_hint(const std::string& path) {
  if (!content_name(path).ends_with(".jsonl")) return "";
  const std::string text = beginning_of(path);
  if (text.starts_with(kGzipMagic)) return fmt::format("; it is compressed: name it {}.gz", path);
  if (text.starts_with(kZstdMagic)) return fmt::format("; it is compressed: name it {}.zst", path);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  const size_t line_end = text.find('\n', first);
  const bool goes_on = line_end != std::string::npos;
  const std::string_view line = std::string_view(text).substr(first, line_end - first);
  if (text[first] == '[' && (goes_on ? !is_json(line) : true)) {
    return fmt::format("; the file is one array of rows: name it {}.json{}",
                       content_name(path).substr(0, content_name(path).size() - 6),
                       path.substr(content_name(path).size()));
  }
  if (text[first] != '{' || !goes_on || is_json(line)) return "";
  return "; its objects run over several lines, and a row is one line: write them with jq -c .";
}

}  // namespace xrun
