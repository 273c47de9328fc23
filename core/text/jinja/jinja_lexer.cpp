// The rules of Jinja's own lexer. A tag's sign controls the white space next to it ("-" strips all,
// "+" keeps all); without one, a block or comment removes the blanks before it on its line and one
// newline after it. Brackets are counted, so that "}}" inside a dict literal ends nothing.

#include "core/text/jinja/jinja_lexer.h"

#include <algorithm>
#include <array>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_ast.h"
#include "core/text/jinja/jinja_strings.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun::jinja {

namespace {

constexpr size_t kMaxSourceBytes = size_t{4} << 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// A byte beyond ASCII may begin a name, as an identifier of Python may.
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

// Converts newlines to "\n" and removes one at the end.
std::string normalise(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  // keep_trailing_newline is off.
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// Reads up to `most` digits of a base at text[at]; returns their number.
size_t read_digits(std::string_view text, size_t at, size_t most, int base, uint32_t& value) {
  size_t count = 0;
  value = 0;
  for (; count < most && at + count < text.size(); ++count) {
    const char c = text[at + count];
    // c | 0x20 is the lower-case letter.
    const int digit = c >= '0' && c <= '9' ? c - '0'
                      : (c | 0x20) >= 'a'  ? (c | 0x20) - 'a' + 10
                                           : 99;
    if (digit >= base) break;
    value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
  }
  return count;
}

// Returns a string literal's value, with escapes as in Python. Unknown ones keep their backslash.
std::string unescape_literal(std::string_view literal, int line) {
  std::string out;
  for (size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\' || at + 1 >= literal.size()) {
      out += literal[at++];
      continue;
    }
    const char c = literal[at + 1];
    static constexpr std::string_view kFrom = "ntr\\'\"abfv\n";
    static constexpr std::string_view kTo("\n\t\r\\'\"\a\b\f\v", 10);
    // kTo lacks the line feed, the last character of kFrom: an escaped one gives nothing.
    uint32_t point = 0;
    if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
      if (simple < kTo.size()) out += kTo[simple];  // a backslash before a newline joins lines
      at += 2;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      // Exactly this many digits, as in Python: "\x4" is malformed.
      const size_t wanted = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      if (read_digits(literal, at + 2, wanted, 16, point) != wanted || point > 0x10FFFF) {
        throw SyntaxFault(fmt::format("the string has a malformed \\{} escape", c), line);
      }
      append_utf8(out, point);
      at += 2 + wanted;
    } else if (c == 'N') {
      throw SyntaxFault("\\N escapes of strings are not supported in chat templates", line);
    } else if (const size_t octal = read_digits(literal, at + 1, 3, 8, point); octal > 0) {
      append_utf8(out, point);
      at += 1 + octal;
    } else {
      out += literal[at++];
    }
  }
  return out;
}

class TemplateLexer {
 public:
  explicit TemplateLexer(std::string_view source) : source_(normalise(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) data();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw SyntaxFault(message, line_); }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  void add(TokenKind kind, std::string_view text) {
    tokens_.push_back({kind, std::string(text), line_});
  }

  // Moves to `to`, counting lines. Positions only grow, so every line feed is counted once.
  void advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  void add_data(size_t end) {
    if (end > at_) add(TokenKind::kData, std::string_view(source_).substr(at_, end - at_));
  }

  // Returns the size of the white space character (as in Python) at `at`, or 0.
  size_t blank_size(size_t at) const {
    if (at >= source_.size()) return 0;
    const CodePoint point = read_utf8(source_, at);
    return is_space_point(point.value) ? point.size : 0;
  }

  // Returns the start of the white space that ends at `end`; with `in_line` it stops at a newline.
  size_t blanks_begin(size_t begin, size_t end, bool in_line) const {
    while (end > begin && !(in_line && source_[end - 1] == '\n')) {
      const size_t last = utf8_before(source_, end);
      if (last < begin || blank_size(last) == 0) break;
      end = last;
    }
    return end;
  }

  // Returns the end of the data before a tag at `tag`, given the tag's sign.
  size_t data_end(size_t begin, size_t tag, char sign, bool variable) const {
    size_t end = tag;
    if (sign == '-') {
      end = blanks_begin(begin, tag, false);
    } else if (sign != '+' && !variable) {
      // Only blocks and comments strip by default; a variable keeps what is around it.
      end = blanks_begin(begin, tag, true);
      // lstrip_blocks: only if nothing but blanks is between the line's start and the tag. If no
      // data is left, the tag before decides.
      const bool at_line_start = end > begin ? source_[end - 1] == '\n' : line_starts_;
      if (!at_line_start) end = tag;
    }
    return end;
  }

  // Consumes a tag's end at `at_`: its sign, its brackets, and white space as the sign says.
  // Returns false if no tag ends here.
  bool close(std::string_view end, bool variable) {
    size_t at = at_;
    char sign = 0;
    if (at < source_.size() && (source_[at] == '-' || (source_[at] == '+' && !variable))) {
      sign = source_[at++];
    }
    if (std::string_view(source_).substr(at, 2) != end) return false;
    at += 2;
    if (sign == '-') {
      at = skip_blanks(at);
    } else if (sign == 0 && !variable && at < source_.size() && source_[at] == '\n') {
      // trim_blocks
      ++at;
    }
    // For lstrip_blocks of the next tag, if no text comes between.
    line_starts_ = source_[at - 1] == '\n';
    advance(at);
    return true;
  }

  void data() {
    size_t tag = at_;
    while ((tag = source_.find('{', tag)) != std::string::npos) {
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : 0;
      if (next == '{' || next == '%' || next == '#') break;
      // A lone brace is text.
      ++tag;
    }
    if (tag == std::string::npos) {
      add_data(source_.size());
      advance(source_.size());
      return;
    }
    const char type = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : 0;
    add_data(data_end(at_, tag, sign, type == '{'));
    advance(tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (type == '#') return comment();
    if (type == '%' && raw_begins()) return raw();
    add(type == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    tag_body(type == '{');
  }

  void comment() {
    // Comments do not nest.
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("Missing end of comment tag");
    const bool signed_end = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    advance(signed_end ? end - 1 : end);
    close("#}", false);
  }

  size_t skip_blanks(size_t at) const {
    for (size_t size; (size = blank_size(at)) > 0;) at += size;
    return at;
  }

  // Inside a block tag: if it is `raw`, moves past the tag and returns true.
  bool raw_begins() {
    size_t at = skip_blanks(at_);
    if (source_.compare(at, 3, "raw") != 0) return false;
    at = skip_blanks(at + 3);
    const bool strip = at < source_.size() && source_[at] == '-';
    if (strip) ++at;
    // A longer name that starts with "raw" is an ordinary tag.
    if (source_.compare(at, 2, "%}") != 0) return false;
    at += 2;
    advance(strip ? skip_blanks(at) : at);
    line_starts_ = source_[at_ - 1] == '\n';
    return true;
  }

  void raw() {
    const size_t begin = at_;
    for (size_t tag = begin; (tag = source_.find("{%", tag)) != std::string::npos; tag += 2) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : 0;
      size_t at = skip_blanks(tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
      // Any other tag is text here.
      if (source_.compare(at, 6, "endraw") != 0) continue;
      add_data(data_end(begin, tag, sign, false));
      advance(skip_blanks(at + 6));
      if (!close("%}", false)) fail("expected the end of the endraw tag");
      return;
    }
    fail("Missing end of raw directive");
  }

  void tag_body(bool variable) {
    // The expected closing brackets, the innermost last.
    std::string brackets;
    while (true) {
      if (at_ >= source_.size()) {
        fail(variable ? "unexpected end of template, expected '}}'"
                      : "unexpected end of template, expected '%}'");
      }
      // A tag ends outside brackets only: {{ {'a': {}} }}.
      if (brackets.empty() && close(variable ? "}}" : "%}", variable)) {
        add(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
        return;
      }
      const char c = source_[at_];
      if (const size_t blanks = skip_blanks(at_); blanks > at_) {
        advance(blanks);
      } else if (is_digit(c)) {
        number();
      } else if (is_name_start(c)) {
        size_t end = at_;
        // A name may hold letters beyond ASCII, but not white space such as U+00A0.
        while (end < source_.size() && is_name_part(source_[end]) && blank_size(end) == 0) ++end;
        add(TokenKind::kName, std::string_view(source_).substr(at_, end - at_));
        advance(end);
      } else if (c == '"' || c == '\'') {
        string(c);
      } else {
        operator_token(brackets);
      }
    }
  }

  // Digits with single underscores between them.
  size_t digits(size_t at, auto accept) const {
    while (at < source_.size() &&
           (accept(source_[at]) ||
            (source_[at] == '_' && at + 1 < source_.size() && accept(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  void number() {
    const auto hexadecimal = [](char c) {
      return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    };
    const char prefix = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : 0;
    const bool based = source_[at_] == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b');
    size_t end = based ? digits(at_ + 2, hexadecimal) : digits(at_, is_digit);
    // The run of zeros at the start: only "0", "00" and so on are integers that begin with 0.
    const size_t zeros = digits(at_, [](char c) { return c == '0'; });
    TokenKind kind = TokenKind::kInteger;
    const auto digit_at = [&](size_t at) { return at < source_.size() && is_digit(source_[at]); };
    if (!based && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      end = digits(end + 1, is_digit);
      kind = TokenKind::kFloat;
    }
    if (!based && end < source_.size() && (source_[end] | 0x20) == 'e') {
      const bool sign =
          end + 1 < source_.size() && (source_[end + 1] == '-' || source_[end + 1] == '+');
      if (digit_at(end + (sign ? 2 : 1))) {
        end = digits(end + (sign ? 2 : 1), is_digit);
        kind = TokenKind::kFloat;
      }
    }
    // As in Python an integer of several digits does not start with zero: the rest is another
    // token.
    if (kind == TokenKind::kInteger && !based && zeros > at_) end = zeros;
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    add(kind, text);
    advance(end);
  }

  void string(char quote) {
    size_t end = at_ + 1;
    // An escaped quote does not end the string.
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("unterminated string");
    const std::string_view literal = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
    add(TokenKind::kString, unescape_literal(literal, line_));
    advance(end + 1);
  }

  void operator_token(std::string& brackets) {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (std::string_view op : kOperators) {
      // Operators of two characters are listed first.
      if (!rest().starts_with(op)) continue;
      if (op == "(" || op == "[" || op == "{") {
        brackets += op == "(" ? ')' : op == "[" ? ']' : '}';
      } else if (op == ")" || op == "]" || op == "}") {
        if (brackets.empty()) fail(fmt::format("unexpected '{}'", op));
        if (brackets.back() != op[0]) {
          fail(fmt::format("unexpected '{}', expected '{}'", op, brackets.back()));
        }
        brackets.pop_back();
      }
      add(TokenKind::kOperator, op);
      advance(at_ + op.size());
      return;
    }
    fail(fmt::format("unexpected char '{}'", source_[at_]));
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // the last tag, if any, ended with a newline
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) {
  if (source.size() > kMaxSourceBytes) throw SyntaxFault("the template is larger than 4 MiB", 1);
  return TemplateLexer(source).run();
}

}  // namespace xrun::jinja
