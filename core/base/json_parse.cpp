// simdjson's DOM reads JSON fast but reports no position: after a failure report_json_fault finds
// it.

#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/json_fault.h"
#include "core/base/utf8.h"

namespace xrun {

// from_chars stops at the first character that is not a hexadecimal digit; `last` shows whether all
// four were.
int utf16_escape(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text.substr(at, 2) != "\\u") return -1;
  const char* end = text.data() + at + 6;
  unsigned unit = 0;
  const auto [last, code] = std::from_chars(end - 4, end, unit, 16);
  return code == std::errc() && last == end ? static_cast<int>(unit) : -1;
}

namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
constexpr size_t kParserBytes = size_t{16} << 20;  // largest text whose parser memory is reused

// Returns true if a number as JSON spells it is an integer beyond int64 and within a double's
// range.
bool is_large_integer(std::string_view number) {
  const std::string_view size = number.substr(number.starts_with('-') ? 1 : 0);
  if (size.starts_with('0') || size.find_first_not_of("0123456789") != size.npos) return false;
  int64_t small = 0;
  double nearest = 0;
  return std::from_chars(number.begin(), number.end(), small).ec != std::errc() &&
         std::from_chars(number.begin(), number.end(), nearest).ec == std::errc();
}

// simdjson refuses integers beyond 64 bits. Returns text with every integer beyond int64 spelled as
// the largest that it takes, and appends the digits of each to `digits`, in order.
std::string spell_large_integers(std::string_view text, std::vector<std::string>& digits) {
  std::string out;
  bool in_string = false;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (in_string || (c != '-' && !std::isdigit(static_cast<unsigned char>(c)))) {
      // An escaped quote does not end its string.
      const size_t size = in_string && c == '\\' ? 2 : 1;
      if (c == '"') in_string = !in_string;
      out.append(text.substr(at, size));
      at += size;
      continue;
    }
    const size_t end = std::min(text.find_first_not_of("+-.0123456789eE", at), text.size());
    const std::string_view number = text.substr(at, end - at);
    at = end;
    if (!is_large_integer(number)) {
      out.append(number);
      continue;
    }
    // No other UINT64 is left in the text, so `convert` may take each for one of the digits.
    out += std::to_string(UINT64_MAX);
    digits.emplace_back(number);
  }
  return out;
}

// Converts simdjson's tree to ours. `digits` are those of the integers beyond int64 that are still
// to come, in order; nullptr if simdjson has read the original text.
Json convert(const simdjson::dom::element& element, const std::string*& digits) {
  using simdjson::dom::element_type;
  switch (element.type()) {
    case element_type::ARRAY: {
      Json::Array array;
      const simdjson::dom::array items(element);
      for (simdjson::dom::element item : items) {
        array.push_back(convert(item, digits));
      }
      return array;
    }
    case element_type::OBJECT: {
      Json::Object object;
      const simdjson::dom::object members(element);
      for (auto [key, value] : members) {
        object.emplace_back(std::string(key), convert(value, digits));
      }
      return object;
    }
    case element_type::INT64: return Json(int64_t{element.get_int64().value_unsafe()});
    case element_type::UINT64:
      if (digits != nullptr) return Json::big_integer(*digits++);
      return Json(uint64_t{element.get_uint64().value_unsafe()});
    case element_type::DOUBLE: return Json(double{element.get_double().value_unsafe()});
    case element_type::STRING: return Json(std::string_view(element.get_string().value_unsafe()));
    case element_type::BOOL: return Json(bool{element.get_bool().value_unsafe()});
    default: return Json();
  }
}

// Keeps the last value of a repeated key, as Python, jq and browsers do: the first one would train
// on other data. Duplicates are found by sorting indices, since a search per key would be quadratic
// in the size of an object, and vocabularies have 10^5 keys.
void drop_repeated(Json::Object& object) {
  std::vector<size_t> order(object.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int c = object[a].first.compare(object[b].first);
    return c != 0 ? c < 0 : a < b;
  });
  std::vector<bool> drop(object.size(), false);
  bool any = false;
  for (size_t i = 1, first = 0; i < order.size(); ++i) {
    if (object[order[i]].first != object[order[first]].first) {
      first = i;
      continue;
    }
    // The first position and the last value, as a Python dict has them.
    object[order[first]].second = std::move(object[order[i]].second);
    drop[order[i]] = any = true;
  }
  if (!any) return;
  Json::Object unique;
  for (size_t i = 0; i < object.size(); ++i) {
    if (!drop[i]) unique.push_back(std::move(object[i]));
  }
  object = std::move(unique);
}

void keep_last_of_repeated_keys(Json& value) {
  if (value.is_array()) {
    for (Json& item : value.as_array()) keep_last_of_repeated_keys(item);
  } else if (value.is_object()) {
    if (value.size() > 1) drop_repeated(value.as_object());
    for (Json::Member& member : value.as_object()) keep_last_of_repeated_keys(member.second);
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view name, int64_t first_line, uint64_t column) {
  // One parser per thread: its tape and buffers are reused from document to document.
  thread_local simdjson::dom::parser parser;
  if (parser.max_depth() != size_t{kMaxJsonDepth}) {
    XRUN_CHECK(!parser.allocate(0, kMaxJsonDepth), "{}: no memory for a JSON parser", name);
  }
  // Some editors write one before the first line of a file.
  const bool marked = first_line == 1 && text.starts_with(kByteOrderMark);
  if (marked) text.remove_prefix(kByteOrderMark.size());
  simdjson::dom::element element;
  std::vector<std::string> large;
  // `true` lets simdjson copy the text into padded memory: it reads beyond the end.
  simdjson::error_code code = parser.parse(text.data(), text.size(), true).get(element);
  if (code == simdjson::NUMBER_ERROR) {
    const std::string spelled = spell_large_integers(text, large);
    code = parser.parse(spelled).get(element);
  }
  if (code != simdjson::SUCCESS) {
    report_json_fault(text, name, first_line, column, simdjson::error_message(code));
  }
  const std::string* digits = large.empty() ? nullptr : large.data();
  Json value = convert(element, digits);
  // A rare huge text must not hold its memory for the life of the thread.
  if (parser.capacity() > kParserBytes) parser = simdjson::dom::parser();
  keep_last_of_repeated_keys(value);
  return value;
}

// The limit is far above any file of ours or of a model.
Json read_json(const std::string& path) { return parse_json(read_file(path, kMaxFileBytes), path); }

}  // namespace xrun
