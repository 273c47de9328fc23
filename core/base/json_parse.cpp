// simdjson's DOM reads JSON fast but reports no position: after a failure JsonGrammar walks the
// text by the grammar of RFC 8259 to the byte that breaks it.

#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
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

constexpr int kMaxDepth = 512;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
constexpr size_t kParserBytes = size_t{16} << 20;  // largest text whose parser memory is reused

struct JsonFault {
  size_t at;  // bytes before it
  std::string message;
};

// Walks a document by its grammar and throws JsonFault at the first byte that breaks it.
class JsonGrammar {
 public:
  explicit JsonGrammar(std::string_view text) : text_(text) {}

  void document() {
    value(0);
    blank();
    if (at_ < text_.size()) fail("unexpected text after the value");
  }

 private:
  [[noreturn]] void fail(std::string message) const { throw JsonFault{at_, std::move(message)}; }

  // Only these four characters are blanks in JSON; isspace() has more.
  void blank() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  char peek() {
    blank();
    if (at_ >= text_.size()) fail("the text ends inside a value");
    return text_[at_];
  }

  void expect(char c) {
    if (peek() != c) fail(fmt::format("expected '{}'", c));
    ++at_;
  }

  // RFC 8259: value = object / array / string / number / true / false / null.
  void value(int depth) {
    // Bounds the recursion, and so the stack.
    if (depth > kMaxDepth) fail(fmt::format("nested deeper than {}", kMaxDepth));
    const char c = peek();
    if (c == '{') return object(depth);
    if (c == '[') return array(depth);
    if (c == '"') return string();
    if (c == '-' || std::isdigit(static_cast<unsigned char>(c))) return number();
    for (std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return;
      }
    }
    fail("expected a value");
  }

  void object(int depth) {
    ++at_;
    if (peek() == '}') {
      ++at_;
      return;
    }
    while (true) {
      if (peek() != '"') fail("expected a key in double quotes");
      string();
      expect(':');
      value(depth + 1);
      if (peek() == '}') break;
      if (peek() != ',') fail("expected ',' or '}'");
      ++at_;
    }
    ++at_;
  }

  void array(int depth) {
    ++at_;
    if (peek() == ']') {
      ++at_;
      return;
    }
    while (true) {
      value(depth + 1);
      if (peek() == ']') break;
      if (peek() != ',') fail("expected ',' or ']'");
      ++at_;
    }
    ++at_;
  }

  void string() {
    const size_t start = at_++;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) fail("a control character in a string");
      if (text_[at_] == '\\') {
        escape();
        continue;
      }
      const CodePoint point = read_utf8(text_, at_);
      if (!point.valid) fail("a byte that is not UTF-8");
      at_ += point.size;
    }
    if (at_ >= text_.size()) {
      // Reported where it begins: its end is the end of the file.
      at_ = start;
      fail("a string without its closing quote");
    }
    ++at_;
  }

  void escape() {
    // A backslash as the last byte; the caller then reports the string as open.
    if (at_ + 1 >= text_.size()) {
      at_ = text_.size();
      return;
    }
    const char c = text_[at_ + 1];
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) {
      fail("an unknown escape in a string");
    }
    if (c != 'u') {
      at_ += 2;
      return;
    }
    const int first = utf16_escape(text_, at_);
    if (first < 0) fail("\\u without four hexadecimal digits");
    const size_t start = at_;
    at_ += 6;
    // A code unit outside D800..DFFF is a character by itself.
    if (first < 0xD800 || first > 0xDFFF) return;
    const int second = utf16_escape(text_, at_);
    // First D800..DBFF, then DC00..DFFF.
    if (first > 0xDBFF || second < 0xDC00 || second > 0xDFFF) {
      at_ = start;
      fail("half of a surrogate pair");
    }
    at_ += 6;
  }

  void digits() {
    if (at_ >= text_.size() || !std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      fail("expected a digit");
    }
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  // RFC 8259: number = [ "-" ] int [ frac ] [ exp ]; int is 0 or begins with 1 to 9.
  void number() {
    const size_t start = at_;
    if (text_[at_] == '-') ++at_;
    const size_t first = at_;
    digits();
    if (text_[first] == '0' && at_ > first + 1) {
      at_ = first;
      fail("a number with a leading zero");
    }
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      digits();
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      digits();
    }
    // strtod needs a terminating 0.
    const std::string digits_read(text_.substr(start, at_ - start));
    if (!std::isfinite(std::strtod(digits_read.c_str(), nullptr))) {
      at_ = start;
      fail("a number out of range");
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Returns the first byte that breaks the grammar, nests deeper than kMaxDepth or spells a value
// that Json cannot hold (half a surrogate pair, a number out of range); nullopt if there is none.
// Runs only after simdjson has refused the text.
std::optional<JsonFault> find_json_fault(std::string_view text) {
  try {
    if (is_utf16(text)) return JsonFault{0, std::string("it is ") + kUtf16Hint};
    JsonGrammar(text).document();
  } catch (JsonFault& found) {
    return std::move(found);
  }
  return std::nullopt;
}

[[noreturn]] void report(std::string_view text, std::string_view name, int64_t first_line,
                         uint64_t column, simdjson::error_code code) {
  // simdjson alone may refuse a text that the grammar accepts; its message then has no position.
  const JsonFault fault =
      find_json_fault(text).value_or(JsonFault{0, simdjson::error_message(code)});
  int64_t line = first_line;
  size_t line_start = 0;
  // `column` counts only for the first line.
  for (size_t i = 0; i < fault.at && i < text.size(); ++i) {
    if (text[i] != '\n') continue;
    ++line;
    line_start = i + 1;
    column = 0;
  }
  throw Error(fmt::format("{}:{}:{}: is not valid JSON: {}", name, line,
                          fault.at - line_start + column + 1, fault.message));
}

// True if a number as JSON spells it is an integer beyond int64 and within a double's range.
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

// From simdjson's tree to ours. `digits` are those of the integers beyond int64 that are still to
// come, in order; nullptr if simdjson has read the original text.
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

// Duplicates are found by sorting indices: a search per key would be quadratic in the size of an
// object, and vocabularies have 10^5 keys.
void keep_last_of_repeated_keys(Json& value);

// Python, jq and browsers all take the last value; a silent first one would train on other data.
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
  if (parser.max_depth() != size_t{kMaxDepth}) {
    XRUN_CHECK(!parser.allocate(0, kMaxDepth), "{}: no memory for a JSON parser", name);
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
  if (code != simdjson::SUCCESS) report(text, name, first_line, column, code);
  const std::string* digits = large.empty() ? nullptr : large.data();
  Json value = convert(element, digits);
  // A rare huge text must not hold its memory for the life of the thread.
  if (parser.capacity() > kParserBytes) parser = simdjson::dom::parser();
  keep_last_of_repeated_keys(value);
  return value;
}

// For files of ours and of models, which are never larger.
Json read_json(const std::string& path) { return parse_json(read_file(path, kMaxFileBytes), path); }

}  // namespace xrun
