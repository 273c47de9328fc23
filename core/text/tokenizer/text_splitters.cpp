// The hand-written splitters of the byte-level families' regexes: GPT-2, Llama-3, Qwen2, Qwen3.5,
// o200k, tekken and DeepSeek-V3. kKnownRegexes at the end lists them.

#include <cstdint>

#include "core/text/tokenizer/text_pattern.h"
#include "core/text/tokenizer/text_scanner.h"

namespace xrun {

namespace {

// Every splitter of words begins a match at a single space before a letter, and ends one after a
// line feed that no other space touches.
SafeSplit split_of_words(SafeSplit split) {
  return split == SafeSplit::kSpace || split == SafeSplit::kLine ? SafeSplit::kPiece
                                                                 : SafeSplit::kNone;
}

// A splitter whose matches tile the text: `next(scanner, at)` returns the end of the match at `at`.
template <class Next>
class TilingSplitter : public TextPattern {
 public:
  explicit TilingSplitter(Next next) : next_(next) {}
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    const TextScanner in(text);
    for (size_t at = 0; at < text.size();) {
      const size_t end = next_(in, at);
      out.push_back({uint32_t(at), uint32_t(end), true});
      at = end;
    }
  }
  SafeSplit split_after(SafeSplit split) const override { return split_of_words(split); }

 private:
  Next next_;
};

template <class Next>
std::unique_ptr<const TextPattern> make_tiling_splitter(Next next) {
  return std::make_unique<TilingSplitter<Next>>(next);
}

struct Gpt2Next {
  size_t operator()(const TextScanner& in, size_t at) const {
    // 's|'t|'re|'ve|'m|'ll|'d
    if (in.byte(at) == '\'') {
      if (const size_t size = contraction(in, at, false)) return at + size;
    }
    size_t word = at;
    // The " ?" of the three runs that follow.
    if (in.byte(at) == ' ' && at + 1 < in.size() && in.kind(at + 1) != CharKind::kSpace) ++word;
    const CharKind kind = in.kind(word);
    return kind == CharKind::kSpace ? in.spaces(at) : in.run(word, kind);
  }
};

// cl100k and its variants: `marks_are_letters` counts marks as letters; up to `digits` characters
// of a number stay together.
template <bool marks_are_letters, size_t digits>
struct Cl100kNext {
  static CharKind kind(const TextScanner& in, size_t at) {
    const CharKind kind = in.kind(at);
    const bool mark = marks_are_letters && kind == CharKind::kOther && in.is_mark(at);
    return mark ? CharKind::kLetter : kind;
  }
  static bool is_kind(const TextScanner& in, size_t at, CharKind wanted) {
    return at < in.size() && kind(in, at) == wanted;
  }
  static size_t run(const TextScanner& in, size_t at, CharKind wanted) {
    if (wanted == CharKind::kLetter) at = in.ascii_letters(at);
    while (is_kind(in, at, wanted)) at = in.next(at);
    return at;
  }

  size_t operator()(const TextScanner& in, size_t at) const {
    const char c = in.byte(at);
    // The alternatives in the order of the regex. (?i:'s|'t|..)
    if (c == '\'') {
      if (const size_t size = contraction(in, at, true)) return at + size;
    }
    const CharKind here = kind(in, at);
    // [^\r\n\p{L}\p{N}]?\p{L}+ without its first character, then \p{N}{1,3}
    if (here == CharKind::kLetter) return run(in, at, here);
    if (here == CharKind::kNumber) return in.run(at, here, digits);
    const size_t after = in.next(at);
    // [^\r\n\p{L}\p{N}]?\p{L}+ with it
    if (!in.is_line_end(at) && is_kind(in, after, CharKind::kLetter)) {
      return run(in, after, CharKind::kLetter);
    }
    // " ?[^\s\p{L}\p{N}]+[\r\n]*"
    if (here == CharKind::kOther || (c == ' ' && is_kind(in, after, CharKind::kOther))) {
      size_t end = run(in, after, CharKind::kOther);
      while (in.is_line_end(end)) ++end;
      return end;
    }
    return blanks_end(in, at);
  }
};

// Words separated by case, as in o200k and tekken:
//   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|..)?
//   |[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|..)?
//   |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
// Lm, Lo and marks have both cases. The first form ends with a lower-case run; if none follows the
// upper run, the upper run gives back everything after its last character of both cases.

struct CasedWords {
  size_t digits;      // characters of a number that stay together
  bool contractions;  // 's, 't and so on stay with the word before them
};

enum class LetterCase { kNone, kUpper, kLower, kBoth };

LetterCase case_of(Category c) {
  switch (c) {
    case Category::kLu:
    case Category::kLt: return LetterCase::kUpper;
    case Category::kLl: return LetterCase::kLower;
    case Category::kLm:
    case Category::kLo:
    case Category::kMc:
    case Category::kMe:
    case Category::kMn: return LetterCase::kBoth;
    default: return LetterCase::kNone;
  }
}

LetterCase case_at(const TextScanner& in, size_t at) {
  if (at >= in.size()) return LetterCase::kNone;
  const auto c = static_cast<unsigned char>(in.byte(at));
  if (c >= 128) return case_of(in.category_at(at));
  return c >= 'a' && c <= 'z'   ? LetterCase::kLower
         : c >= 'A' && c <= 'Z' ? LetterCase::kUpper
                                : LetterCase::kNone;
}

// The two possible ends of a word; 0: none.
struct WordEnds {
  size_t lower;  // end by the first form
  size_t upper;  // end by the second form
};

WordEnds word_ends(const TextScanner& in, size_t begin) {
  size_t at = begin, after_both = 0;
  LetterCase k = case_at(in, at);
  for (; k == LetterCase::kUpper || k == LetterCase::kBoth; k = case_at(in, at)) {
    at = in.next(at);
    if (k == LetterCase::kBoth) after_both = at;
  }
  const size_t upper_end = at;
  // No lower-case letter follows: the first form ends after the last letter without case.
  if (k != LetterCase::kLower) return {after_both, upper_end > begin ? upper_end : 0};
  for (; k == LetterCase::kLower || k == LetterCase::kBoth; k = case_at(in, at)) at = in.next(at);
  return {at, at};
}

struct CasedNext {
  CasedWords options;

  size_t with_contraction(const TextScanner& in, size_t end) const {
    if (!options.contractions || in.byte(end) != '\'') return end;
    return end + contraction(in, end, true);
  }

  size_t operator()(const TextScanner& in, size_t at) const {
    const CharKind kind = in.kind(at);
    if (kind == CharKind::kNumber) return in.run(at, kind, options.digits);
    const size_t after = in.next(at);
    // A word may begin with one character that is not a letter, number or line end.
    const bool may_lead = kind != CharKind::kLetter && !in.is_line_end(at);
    const WordEnds led = may_lead ? word_ends(in, after) : WordEnds{0, 0};
    // The order of a backtracking engine: the first form with its optional character, then without
    // it, then the second form likewise.
    if (led.lower > 0) return with_contraction(in, led.lower);
    const WordEnds own = word_ends(in, at);
    if (own.lower > 0) return with_contraction(in, own.lower);
    if (led.upper > 0) return with_contraction(in, led.upper);
    if (own.upper > 0) return with_contraction(in, own.upper);
    if (kind == CharKind::kOther || (in.byte(at) == ' ' && in.is_kind(after, CharKind::kOther))) {
      size_t end = in.run(after, CharKind::kOther);
      while (in.is_line_end(end) || in.byte(end) == '/') ++end;
      return end;
    }
    return blanks_end(in, at);
  }
};

// The three stages of DeepSeek-V3, each in a Split component:
//   \p{N}{1,3}
//   [一-龥぀-ゟ゠-ヿ]+
//   [!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+
//   |\s+(?!\S)|\s+
// The last one does not match numbers, nor controls without a letter after them.

// Matches runs of at most `limit` characters for which `test(scanner, at)` is true.
class RunSplitter : public TextPattern {
 public:
  using Test = bool (*)(const TextScanner&, size_t);
  RunSplitter(Test test, size_t limit) : test_(test), limit_(limit) {}
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    const TextScanner in(text);
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      if (!test_(in, at)) {
        at = in.next(at);
        continue;
      }
      if (done < at) out.push_back({uint32_t(done), uint32_t(at), false});
      size_t end = at;
      // At most `limit_` characters a piece.
      for (size_t i = 0; i < limit_ && end < text.size() && test_(in, end); ++i) end = in.next(end);
      out.push_back({uint32_t(at), uint32_t(end), true});
      done = at = end;
    }
    if (done < text.size()) out.push_back({uint32_t(done), uint32_t(text.size()), false});
  }
  SafeSplit split_after(SafeSplit split) const override { return split; }

 private:
  Test test_;
  size_t limit_;
};

bool is_han_or_kana(const TextScanner& in, size_t at) {
  if (static_cast<unsigned char>(in.byte(at)) < 0xE3) return false;  // below U+3000
  const uint32_t c = in.character(at);
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

bool is_number_at(const TextScanner& in, size_t at) { return in.kind(at) == CharKind::kNumber; }

enum class DeepSeekKind { kLetter, kMark, kPunctuation, kSpace, kOther };

DeepSeekKind deepseek_kind(const TextScanner& in, size_t at) {
  const CharKind kind = in.kind(at);
  if (kind == CharKind::kLetter) return DeepSeekKind::kLetter;
  if (kind == CharKind::kSpace) return DeepSeekKind::kSpace;
  const Category c = in.category_at(at);
  if (c == Category::kMc || c == Category::kMe || c == Category::kMn) return DeepSeekKind::kMark;
  // The categories of P and S follow one another in the enumeration.
  const bool punctuation = c >= Category::kPc && c <= Category::kSo;
  return punctuation ? DeepSeekKind::kPunctuation : DeepSeekKind::kOther;
}

bool is_deepseek_word(const TextScanner& in, size_t at) {
  if (at >= in.size()) return false;
  const DeepSeekKind kind = deepseek_kind(in, at);
  return kind == DeepSeekKind::kLetter || kind == DeepSeekKind::kMark;
}

bool is_deepseek_punctuation(const TextScanner& in, size_t at) {
  return at < in.size() && deepseek_kind(in, at) == DeepSeekKind::kPunctuation;
}

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns the end of the match at `at`, or `at` if there is none.
size_t next_deepseek(const TextScanner& in, size_t at) {
  const DeepSeekKind kind = deepseek_kind(in, at);
  size_t end = in.next(at);
  if (kind == DeepSeekKind::kPunctuation) {
    // [!-/:-~][A-Za-z]+: one byte long, so ASCII.
    if (end == at + 1 && is_ascii_letter(in.byte(end))) {
      while (is_ascii_letter(in.byte(end))) ++end;
      return end;
    }
  } else if (is_deepseek_word(in, at) || (!in.is_line_end(at) && is_deepseek_word(in, end))) {
    while (is_deepseek_word(in, end)) end = in.next(end);
    return end;
  }
  if (kind == DeepSeekKind::kPunctuation ||
      (in.byte(at) == ' ' && is_deepseek_punctuation(in, end))) {
    while (is_deepseek_punctuation(in, end)) end = in.next(end);
    while (in.is_line_end(end)) ++end;
    return end;
  }
  return kind == DeepSeekKind::kSpace ? blanks_end(in, at) : at;
}

class DeepSeekSplitter : public TextPattern {
 public:
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    const TextScanner in(text);
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = next_deepseek(in, at);
      if (end == at) {
        at = in.next(at);
        continue;
      }
      if (done < at) out.push_back({uint32_t(done), uint32_t(at), false});
      out.push_back({uint32_t(at), uint32_t(end), true});
      done = at = end;
    }
    if (done < text.size()) out.push_back({uint32_t(done), uint32_t(text.size()), false});
  }
  SafeSplit split_after(SafeSplit split) const override { return split_of_words(split); }
};

std::unique_ptr<const TextPattern> make_run_splitter(RunSplitter::Test test, size_t limit) {
  return std::make_unique<RunSplitter>(test, limit);
}

struct KnownRegex {
  std::string_view regex;
  std::unique_ptr<const TextPattern> (*make)();
};

constexpr KnownRegex kKnownRegexes[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     [] { return make_gpt2_splitter(); }},
    // Llama-3
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] { return make_tiling_splitter(Cl100kNext<false, 3>()); }},
    // Qwen2
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] { return make_tiling_splitter(Cl100kNext<false, 1>()); }},
    // Qwen3.5
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
     R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] { return make_tiling_splitter(Cl100kNext<true, 1>()); }},
    // o200k: GPT-4o, gpt-oss, Llama-4
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] {
       return make_tiling_splitter(CasedNext{{3, true}});
     }},
    // tekken: Mistral Nemo and later
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] {
       return make_tiling_splitter(CasedNext{{1, false}});
     }},
    // The three stages of DeepSeek-V3
    {R"(\p{N}{1,3})", [] { return make_run_splitter(&is_number_at, 3); }},
    {"[一-龥\u3040-ゟ゠-ヿ]+", [] { return make_run_splitter(&is_han_or_kana, SIZE_MAX); }},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
     R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     []() -> std::unique_ptr<const TextPattern> { return std::make_unique<DeepSeekSplitter>(); }},
};

// A file may spell the line ends of [\r\n] as characters or as escapes.
std::string with_escaped_line_ends(std::string_view regex) {
  std::string escaped;
  for (const char c : regex) {
    if (c == '\r') {
      escaped += "\\r";
    } else if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::unique_ptr<const TextPattern> make_known_splitter(std::string_view regex) {
  // Compared as text: a regex that means the same but is spelled differently runs in PCRE2.
  const std::string escaped = with_escaped_line_ends(regex);
  for (const KnownRegex& known : kKnownRegexes) {
    if (escaped == known.regex) return known.make();
  }
  return nullptr;
}

std::unique_ptr<const TextPattern> make_gpt2_splitter() { return make_tiling_splitter(Gpt2Next()); }

}  // namespace xrun
