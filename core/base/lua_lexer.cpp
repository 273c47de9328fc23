// Strings keep their bytes; of escapes those of Lua 5.1 and \xXX, \z of LuaJIT are read.

#include "core/base/lua_lexer.h"

#include <cctype>
#include <cstdlib>

namespace xrun {
namespace {

using Kind = LuaToken::Kind;

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {
    if (text_.starts_with('#')) skip_line();  // #!/usr/bin/env xrun
  }

  std::vector<LuaToken> all() {
    std::vector<LuaToken> tokens;
    do {
      tokens.push_back(next());
    } while (tokens.back().kind != Kind::kEnd && tokens.back().kind != Kind::kBad);
    if (tokens.back().kind == Kind::kBad) tokens.push_back(token(Kind::kEnd));
    return tokens;
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool digit(size_t ahead = 0) const {
    return std::isdigit(static_cast<unsigned char>(peek(ahead)));
  }
  bool name_byte() const {
    return std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_';
  }
  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  LuaToken token(Kind kind, std::string text = "") const {
    return {.kind = kind, .text = std::move(text), .number = 0, .line = line_};
  }

  LuaToken next() {
    skip_blanks();
    if (at_ >= text_.size()) return token(Kind::kEnd);
    if (digit() || (peek() == '.' && digit(1))) return number();
    if (name_byte()) return name();
    if (peek() == '"' || peek() == '\'') return short_string();
    if (peek() == '[' && long_level() >= 0) {
      LuaToken string = token(Kind::kString);
      return read_long(&string.text) ? string : token(Kind::kBad);
    }
    return sign();
  }

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

  // The number of = in a long bracket that opens here, or -1.
  int long_level() const {
    size_t ahead = 1;
    while (peek(ahead) == '=') ++ahead;
    return peek(ahead) == '[' ? static_cast<int>(ahead) - 1 : -1;
  }

  bool read_long(std::string* out) {
    const std::string close = "]" + std::string(static_cast<size_t>(long_level()), '=') + "]";
    at_ += close.size();
    const size_t end = text_.find(close, at_);
    if (end == std::string_view::npos) return false;
    std::string_view body = text_.substr(at_, end - at_);
    for (char c : body) line_ += c == '\n';
    if (body.starts_with('\n')) body.remove_prefix(1);
    if (out != nullptr) *out = body;
    at_ = end + close.size();
    return true;
  }

  LuaToken number() {
    const std::string rest(text_.substr(at_, 64));
    char* end = nullptr;
    LuaToken read = token(Kind::kNumber);
    read.number = std::strtod(rest.c_str(), &end);
    const size_t size = static_cast<size_t>(end - rest.c_str());
    at_ += size;
    if (size == 0 || name_byte()) return token(Kind::kBad);  // 1LL, 0x1p, 3x
    read.text = rest.substr(0, size);
    return read;
  }

  LuaToken name() {
    const size_t begin = at_;
    while (name_byte()) ++at_;
    return token(Kind::kName, std::string(text_.substr(begin, at_ - begin)));
  }

  LuaToken short_string() {
    const char quote = text_[at_++];
    LuaToken read = token(Kind::kString);
    while (at_ < text_.size() && peek() != quote) {
      if (peek() == '\n') return token(Kind::kBad);
      if (peek() != '\\') {
        read.text += text_[at_++];
      } else if (!escape(read.text)) {
        return token(Kind::kBad);
      }
    }
    if (at_ >= text_.size()) return token(Kind::kBad);
    ++at_;
    return read;
  }

  bool escape(std::string& out) {
    ++at_;
    constexpr std::string_view kFrom = "abfnrtv", kTo = "\a\b\f\n\r\t\v";
    const char c = peek();
    if (const size_t known = kFrom.find(c); known != std::string_view::npos && c != '\0') {
      out += kTo[known];
      ++at_;
    } else if (c == 'x') {
      const std::string hex(text_.substr(at_ + 1, 2));
      char* end = nullptr;
      out += static_cast<char>(std::strtol(hex.c_str(), &end, 16));
      if (end != hex.c_str() + 2) return false;
      at_ += 3;
    } else if (c == 'z') {
      ++at_;
      while (std::isspace(static_cast<unsigned char>(peek()))) line_ += text_[at_++] == '\n';
    } else if (digit()) {
      int value = 0;
      for (int i = 0; i < 3 && digit(); ++i) value = value * 10 + (text_[at_++] - '0');
      if (value > 255) return false;
      out += static_cast<char>(value);
    } else {
      line_ += c == '\n';
      if (c == '\0') return false;
      out += c;
      ++at_;
    }
    return true;
  }

  LuaToken sign() {
    for (std::string_view two : {"...", "..", "==", "~=", "<=", ">=", "::"}) {
      if (!text_.substr(at_).starts_with(two)) continue;
      at_ += two.size();
      return token(Kind::kSign, std::string(two));
    }
    return token(Kind::kSign, std::string(1, text_[at_++]));
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<LuaToken> lex_lua(std::string_view text) { return Lexer(text).all(); }

}  // namespace xrun
