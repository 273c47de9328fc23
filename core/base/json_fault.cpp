// JsonGrammar walks the text by the grammar of RFC 8259 to the byte that breaks it.

#include "core/base/json_fault.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

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
    if (at_ >= text_.size()) return;
    const bool last = text_.find_first_not_of(", \t\r\n", at_) == std::string_view::npos;
    fail(last ? "a comma after the value; remove it" : "unexpected text after the value");
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
    if (depth > kMaxJsonDepth) fail(fmt::format("nested deeper than {}", kMaxJsonDepth));
    const char c = peek();
    // Python and JavaScript write these.
    for (std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (text_.substr(at_).starts_with(word))
        fail(fmt::format("{} is not JSON; write null", word));
    }
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

// Returns the first byte that breaks the grammar, nests deeper than kMaxJsonDepth or spells a value
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

}  // namespace

void report_json_fault(std::string_view text, std::string_view name, int64_t first_line,
                       uint64_t column, const char* otherwise) {
  const JsonFault fault = find_json_fault(text).value_or(JsonFault{0, otherwise});
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

}  // namespace xrun
