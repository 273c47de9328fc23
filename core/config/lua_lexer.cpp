// The lexer follows LuaJIT: strings keep their bytes except for ends of lines; escapes are
// Lua 5.1's, \xXX, \z and \u{XXX}; bytes beyond ASCII are letters. Full-width signs are signs, so
// that messages can name them.

#include "core/config/lua_lexer.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/base/utf8.h"
#include "core/config/wide_signs.h"

namespace xrun {
namespace {

class LuaLexer {
 public:
  explicit LuaLexer(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    // A lone '#' is an operator at the prompt: #names.
    if (text_.substr(at_).starts_with("#!")) skip_line();
  }

  std::vector<LuaToken> all() {
    std::vector<LuaToken> tokens;
    do {
      skip_blanks();
      const size_t begin = at_;
      tokens.push_back(next());
      tokens.back().begin = begin;
      tokens.back().end = at_;
    } while (tokens.back().kind != LuaTokenKind::kEnd);
    return tokens;
  }

 private:
  char peek(size_t ahead = 0) const {
    // '\0' beyond the end: no rule begins or continues with it.
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool digit(size_t ahead = 0) const {
    return std::isdigit(static_cast<unsigned char>(peek(ahead)));
  }
  bool name_byte() const {
    const auto byte = static_cast<unsigned char>(peek());
    if (byte >= 0x80) return !is_wide_sign(text_.substr(at_));
    return std::isalnum(byte) || byte == '_';
  }
  // Returns the size of the end of line at text[at]: \r\n, \n\r, \r or \n, as in LuaJIT; else 0.
  static size_t newline_size(std::string_view text, size_t at) {
    const auto is_end = [&](size_t i) {
      return i < text.size() && (text[i] == '\n' || text[i] == '\r');
    };
    if (!is_end(at)) return 0;
    return is_end(at + 1) && text[at + 1] != text[at] ? 2 : 1;
  }
  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  LuaToken token(LuaTokenKind kind, std::string text = "") const {
    return {.kind = kind, .text = std::move(text), .line = line_};
  }
  static LuaToken bad(int line, std::string complaint, bool unfinished = false) {
    return {.kind = LuaTokenKind::kBad,
            .text = std::move(complaint),
            .line = line,
            .unfinished = unfinished};
  }

  // Reads one token; the caller has skipped blanks and comments.
  LuaToken next() {
    if (at_ >= text_.size()) return token(LuaTokenKind::kEnd);
    if (digit() || (peek() == '.' && digit(1))) return number();
    if (name_byte()) return name();
    if (peek() == '"' || peek() == '\'') return short_string();
    if (peek() == '[' && long_level() >= 0) {
      // Long strings have no escapes.
      LuaToken string = token(LuaTokenKind::kString);
      if (read_long(&string.text)) return string;
      at_ = text_.size();
      return bad(string.line, "a long string that does not end", true);
    }
    return sign();
  }

  // Skips comments too.
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (peek() == '\n') ++line_;
      if (std::isspace(static_cast<unsigned char>(peek()))) {
        ++at_;
      } else if (peek() == '-' && peek(1) == '-') {
        at_ += 2;
        if (peek() != '[' || long_level() < 0) {
          skip_line();
        } else if (!read_long(nullptr)) {
          at_ = text_.size();
        }
      } else {
        return;
      }
    }
  }

  // Returns the number of = in the long bracket that opens here, or -1. Does not move at_.
  int long_level() const {
    size_t ahead = 1;
    while (peek(ahead) == '=') ++ahead;
    return peek(ahead) == '[' ? static_cast<int>(ahead) - 1 : -1;
  }

  // Reads a long string, or skips a long comment if `out` is null; returns false if it has no end.
  bool read_long(std::string* out) {
    // The closing bracket has as many `=` as the opening one.
    const std::string close = "]" + std::string(static_cast<size_t>(long_level()), '=') + "]";
    at_ += close.size();
    const size_t end = text_.find(close, at_);
    if (end == std::string_view::npos) return false;
    const std::string_view body = text_.substr(at_, end - at_);
    for (char c : body) line_ += c == '\n';
    at_ = end + close.size();
    if (out == nullptr) return true;
    // Lua drops a newline right after the bracket.
    for (size_t i = newline_size(body, 0); i < body.size();) {
      const size_t newline = newline_size(body, i);
      *out += newline != 0 ? '\n' : body[i];
      i += newline != 0 ? newline : 1;
    }
    return true;
  }

  LuaToken number() {
    const size_t begin = at_;
    const bool hex = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    const std::string_view exponent = hex ? "pP" : "eE";
    // All that LuaJIT takes as one number, well-formed or not: 1e-3, 1..2.
    while (name_byte() || peek() == '.' ||
           ((peek() == '-' || peek() == '+') && exponent.find(text_[at_ - 1]) != exponent.npos)) {
      ++at_;
    }
    LuaToken read = token(LuaTokenKind::kNumber, std::string(text_.substr(begin, at_ - begin)));
    char* end = nullptr;
    read.number = std::strtod(read.text.c_str(), &end);
    // strtod accepts a prefix.
    if (end != read.text.c_str() + read.text.size())
      return bad(line_, read.text + ", which is not a plain number");  // 1LL, 2i, 3x
    if (!std::isfinite(read.number)) return bad(line_, read.text + ", which is out of range");
    return read;
  }

  // Keywords are names too: the parser of a config does not tell them apart.
  LuaToken name() {
    const size_t begin = at_;
    while (name_byte()) ++at_;
    return token(LuaTokenKind::kName, std::string(text_.substr(begin, at_ - begin)));
  }

  LuaToken short_string() {
    const char quote = text_[at_++];
    LuaToken read = token(LuaTokenKind::kString);
    std::string wrong;
    while (at_ < text_.size() && peek() != quote) {
      if (peek() == '\n') break;
      const size_t begin = at_;
      if (peek() != '\\') {
        read.text += text_[at_++];
      } else if (!escape(read.text)) {
        // Continue to the closing quote, so that the text after it keeps its meaning.
        if (wrong.empty()) wrong = text_.substr(begin, at_ + 1 - begin);
      }
    }
    if (peek() != quote) return bad(read.line, "a string that does not end", true);
    ++at_;
    return wrong.empty() ? read : bad(read.line, wrong + ", which is not an escape");
  }

  // Appends the bytes of an escape. Returns false if it is not one, with at_ at the last character
  // that shows it.
  bool escape(std::string& out) {
    ++at_;
    constexpr std::string_view kFrom = "abfnrtv", kTo = "\a\b\f\n\r\t\v";
    const char c = peek();
    // find('\0') must not match at the end of the text.
    if (const size_t known = kFrom.find(c); known != std::string_view::npos && c != '\0') {
      out += kTo[known];
      ++at_;
    } else if (c == 'x') {
      const std::string_view hex = text_.substr(at_ + 1, 2);
      unsigned value = 0;  // unsigned: from_chars then takes no sign
      const auto [end, code] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
      // Two hexadecimal digits exactly.
      if (code != std::errc() || hex.size() < 2 || end != hex.data() + 2) return false;
      out += static_cast<char>(value);
      at_ += 3;
    } else if (c == 'u') {
      return unicode_escape(out);
    } else if (c == 'z') {
      ++at_;
      while (std::isspace(static_cast<unsigned char>(peek()))) line_ += text_[at_++] == '\n';
    } else if (digit()) {
      int value = 0;
      // Up to three decimal digits, as in Lua 5.1.
      for (int i = 0; i < 3 && digit(); ++i) value = value * 10 + (text_[at_++] - '0');
      if (value > 255) {
        --at_;
        return false;
      }
      out += static_cast<char>(value);
    } else if (const size_t newline = newline_size(text_, at_); newline != 0) {
      // A backslash before the end of a line keeps it.
      for (char end : text_.substr(at_, newline)) line_ += end == '\n';
      out += '\n';
      at_ += newline;
    } else {
      if (std::string_view("\\\"'").find(c) == std::string_view::npos || c == '\0') return false;
      out += c;
      ++at_;
    }
    return true;
  }

  // \u{20AC}; surrogates and values beyond U+10FFFF are errors.
  bool unicode_escape(std::string& out) {
    const size_t close = text_.find('}', at_);
    if (peek(1) != '{' || close == std::string_view::npos) return false;
    const std::string_view digits = text_.substr(at_ + 2, close - at_ - 2);
    uint32_t point = 0;
    const auto [end, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), point, 16);
    if (code != std::errc() || end != digits.data() + digits.size() || digits.empty()) return false;
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return false;
    append_utf8(out, point);
    at_ = close + 1;
    return true;
  }

  LuaToken sign() {
    // Longest first.
    for (std::string_view two : {"...", "..", "==", "~=", "<=", ">=", "::"}) {
      if (!text_.substr(at_).starts_with(two)) continue;
      at_ += two.size();
      return token(LuaTokenKind::kSign, std::string(two));
    }
    // A full-width sign as a whole.
    const size_t size = read_utf8(text_, at_).size;
    at_ += size;
    return token(LuaTokenKind::kSign, std::string(text_.substr(at_ - size, size)));
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<LuaToken> lex_lua(std::string_view text) { return LuaLexer(text).all(); }

}  // namespace xrun
