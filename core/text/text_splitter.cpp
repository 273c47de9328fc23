// The splitting regexes of the byte-level families, written by hand. Every character belongs to a
// match, so that the stretches are all matches.
//   GPT-2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   Llama-3  (?i:'s|'t|..)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
//            |\s*[\r\n]+|\s+(?!\S)|\s+
//   Qwen2    the same with \p{N}

#include "core/text/text_pattern.h"
#include "core/text/unicode.h"
#include "core/text/utf8_cursor.h"

#include <array>

namespace xrun {

namespace {

constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<CharKind, 128> ascii_kinds() {
  std::array<CharKind, 128> kinds{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    kinds[c] = letter                 ? CharKind::kLetter
               : c >= '0' && c <= '9' ? CharKind::kNumber
               : space                ? CharKind::kSpace
                                      : CharKind::kOther;
  }
  return kinds;
}
constexpr std::array<CharKind, 128> kAsciiKinds = ascii_kinds();

// A place in the text and what stands there.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  size_t size() const { return text_.size(); }
  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  // Requires at < size().
  CharKind kind(size_t at) const {
    const auto c = static_cast<unsigned char>(text_[at]);
    return c < 128 ? kAsciiKinds[c] : char_kind(utf8_character(text_, at));
  }
  bool is_kind(size_t at, CharKind wanted) const { return at < size() && kind(at) == wanted; }
  size_t next(size_t at) const { return at + utf8_size(text_[at]); }
  // Returns the end of a run of one kind, at most `limit` characters of it.
  size_t run(size_t at, CharKind wanted, size_t limit = SIZE_MAX) const {
    for (; limit > 0 && is_kind(at, wanted); --limit) at = next(at);
    return at;
  }
  bool is_line_end(size_t at) const { return byte(at) == '\n' || byte(at) == '\r'; }
  // \s+(?!\S)|\s+ at a space: all of the run, less its last character if a word follows it.
  size_t spaces(size_t at) const {
    const size_t end = run(at, CharKind::kSpace);
    if (end == size()) return end;
    const size_t last = utf8_before(text_, end);
    return last > at ? last : end;
  }

 private:
  std::string_view text_;
};

// Returns the bytes of a contraction ('s 't 'm 'd 're 've 'll) at an apostrophe, or 0.
size_t contraction(const Scanner& in, size_t at, bool any_case) {
  const auto folded = [&](size_t i) -> char {
    const char c = in.byte(i);
    return any_case && c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  };
  const char a = folded(at + 1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  const char b = folded(at + 2);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  // U+017F, the long s, is an s in another case.
  if (any_case && a == '\xC5' && b == '\xBF') return 3;
  return 0;
}

size_t next_gpt2(const Scanner& in, size_t at) {
  if (in.byte(at) == '\'') {
    if (const size_t size = contraction(in, at, false)) return at + size;
  }
  size_t word = at;
  if (in.byte(at) == ' ' && at + 1 < in.size() && in.kind(at + 1) != CharKind::kSpace) ++word;
  const CharKind kind = in.kind(word);
  return kind == CharKind::kSpace ? in.spaces(at) : in.run(word, kind);
}

size_t next_cl100k(const Scanner& in, size_t at, size_t digits) {
  const char c = in.byte(at);
  if (c == '\'') {
    if (const size_t size = contraction(in, at, true)) return at + size;
  }
  const CharKind kind = in.kind(at);
  if (kind == CharKind::kLetter) return in.run(at, kind);
  if (kind == CharKind::kNumber) return in.run(at, kind, digits);
  const size_t after = in.next(at);
  if (!in.is_line_end(at) && in.is_kind(after, CharKind::kLetter)) {
    return in.run(after, CharKind::kLetter);
  }
  if (kind == CharKind::kOther || (c == ' ' && in.is_kind(after, CharKind::kOther))) {
    size_t end = in.run(after, CharKind::kOther);
    while (in.is_line_end(end)) ++end;
    return end;
  }
  size_t line_end = 0;  // after the last \r or \n of the run of spaces
  for (size_t i = at; in.is_kind(i, CharKind::kSpace); i = in.next(i)) {
    if (in.is_line_end(i)) line_end = i + 1;
  }
  return line_end > 0 ? line_end : in.spaces(at);
}

class Gpt2Splitter : public TextPattern {
 public:
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    const Scanner in(text);
    for (size_t at = 0; at < text.size();) {
      const size_t end = next_gpt2(in, at);
      out.push_back({uint32_t(at), uint32_t(end), true});
      at = end;
    }
  }
};

class Cl100kSplitter : public TextPattern {
 public:
  explicit Cl100kSplitter(size_t digits) : digits_(digits) {}
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    const Scanner in(text);
    for (size_t at = 0; at < text.size();) {
      const size_t end = next_cl100k(in, at, digits_);
      out.push_back({uint32_t(at), uint32_t(end), true});
      at = end;
    }
  }

 private:
  size_t digits_;  // characters of a number that stay together
};

}  // namespace

std::unique_ptr<const TextPattern> make_known_splitter(std::string_view regex) {
  if (regex == kGpt2Regex) return std::make_unique<Gpt2Splitter>();
  if (regex == kLlama3Regex) return std::make_unique<Cl100kSplitter>(3);
  if (regex == kQwen2Regex) return std::make_unique<Cl100kSplitter>(1);
  return nullptr;
}

std::unique_ptr<const TextPattern> make_gpt2_splitter() { return std::make_unique<Gpt2Splitter>(); }

}  // namespace xrun
