// The splitting regexes of the byte-level families that are written by hand, and the splitters of
// GPT-2, Llama-3, Qwen2 and Qwen3.5. In these every character belongs to a match.

#include "core/text/tokenizer/text_cleanup.h"
#include "core/text/tokenizer/text_scanner.h"

namespace xrun {

namespace {

struct Gpt2 {
  size_t operator()(const Scanner& in, size_t at) const {
    if (in.byte(at) == '\'') {
      if (const size_t size = contraction(in, at, false)) return at + size;
    }
    size_t word = at;
    if (in.byte(at) == ' ' && at + 1 < in.size() && in.kind(at + 1) != CharKind::kSpace) ++word;
    const CharKind kind = in.kind(word);
    return kind == CharKind::kSpace ? in.spaces(at) : in.run(word, kind);
  }
};

// Letters, or letters and marks where `marks_are_letters`; `digits` characters of a number stay
// together.
template <bool marks_are_letters, size_t digits>
struct Cl100k {
  static CharKind kind(const Scanner& in, size_t at) {
    const CharKind kind = in.kind(at);
    const bool mark = marks_are_letters && kind == CharKind::kOther && in.is_mark(at);
    return mark ? CharKind::kLetter : kind;
  }
  static bool is_kind(const Scanner& in, size_t at, CharKind wanted) {
    return at < in.size() && kind(in, at) == wanted;
  }
  static size_t run(const Scanner& in, size_t at, CharKind wanted) {
    if (wanted == CharKind::kLetter) at = in.ascii_letters(at);
    while (is_kind(in, at, wanted)) at = in.next(at);
    return at;
  }

  size_t operator()(const Scanner& in, size_t at) const {
    const char c = in.byte(at);
    if (c == '\'') {
      if (const size_t size = contraction(in, at, true)) return at + size;
    }
    const CharKind here = kind(in, at);
    if (here == CharKind::kLetter) return run(in, at, here);
    if (here == CharKind::kNumber) return in.run(at, here, digits);
    const size_t after = in.next(at);
    if (!in.is_line_end(at) && is_kind(in, after, CharKind::kLetter)) {
      return run(in, after, CharKind::kLetter);
    }
    if (here == CharKind::kOther || (c == ' ' && is_kind(in, after, CharKind::kOther))) {
      size_t end = run(in, after, CharKind::kOther);
      while (in.is_line_end(end)) ++end;
      return end;
    }
    return blanks_end(in, at);
  }
};

struct KnownRegex {
  std::string_view regex;
  std::unique_ptr<const TextPattern> (*make)();
};

constexpr KnownRegex kKnown[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     [] { return make_gpt2_splitter(); }},
    // Llama-3
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] { return make_tiling_splitter(Cl100k<false, 3>()); }},
    // Qwen2
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] { return make_tiling_splitter(Cl100k<false, 1>()); }},
    // Qwen3.5
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
     R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] { return make_tiling_splitter(Cl100k<true, 1>()); }},
    // o200k: GPT-4o, gpt-oss, Llama-4
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] {
       return make_cased_splitter({3, true});
     }},
    // tekken: Mistral Nemo and later
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] {
       return make_cased_splitter({1, false});
     }},
    // The three stages of DeepSeek-V3
    {R"(\p{N}{1,3})", [] { return make_number_splitter(); }},
    {"[一-龥\u3040-ゟ゠-ヿ]+", [] { return make_han_kana_splitter(); }},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
     R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [] { return make_deepseek_splitter(); }},
};

}  // namespace

std::unique_ptr<const TextPattern> make_known_splitter(std::string_view regex) {
  // A file may have the line ends of [\r\n] as characters or escaped.
  const std::string escaped = replaced(replaced(regex, "\r", "\\r"), "\n", "\\n");
  for (const KnownRegex& known : kKnown) {
    if (escaped == known.regex) return known.make();
  }
  return nullptr;
}

std::unique_ptr<const TextPattern> make_gpt2_splitter() { return make_tiling_splitter(Gpt2()); }

}  // namespace xrun
