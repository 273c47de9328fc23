#include "core/base/json_fault.h"

#include <fmt/core.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/base/utf8.h"

namespace xrun {

namespace {

// Walks a document by its grammar and throws JsonFault at the first byte that breaks it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void document() {
    value(0);
    blank();
    if (at_ < text_.size()) fail("unexpected text after the value");
  }

 private:
  [[noreturn]] void fail(std::string message) const { throw JsonFault{at_, std::move(message)}; }

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

  void value(int depth) {
    if (depth > kMaxJsonDepth) fail(fmt::format("nested deeper than {}", kMaxJsonDepth));
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
      at_ = start;
      fail("a string without its closing quote");
    }
    ++at_;
  }

  void escape() {
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
    const int first = json_escape_unit(text_, at_);
    if (first < 0) fail("\\u without four hexadecimal digits");
    const size_t start = at_;
    at_ += 6;
    if (first < 0xD800 || first > 0xDFFF) return;
    const int second = json_escape_unit(text_, at_);
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
    const std::string digits_read(text_.substr(start, at_ - start));
    if (!std::isfinite(std::strtod(digits_read.c_str(), nullptr))) {
      at_ = start;
      fail("a number out of range");
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

int json_escape_unit(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text.substr(at, 2) != "\\u") return -1;
  const char* end = text.data() + at + 6;
  unsigned unit = 0;
  const auto [last, code] = std::from_chars(end - 4, end, unit, 16);
  return code == std::errc() && last == end ? static_cast<int>(unit) : -1;
}

std::optional<JsonFault> find_json_fault(std::string_view text) {
  try {
    if (is_utf16(text)) return JsonFault{0, std::string("it is ") + kUtf16Hint};
    Scanner(text).document();
  } catch (JsonFault& found) {
    return std::move(found);
  }
  return std::nullopt;
}

}  // namespace xrun
