// Words that are told apart by case, as o200k and tekken cut them:
//   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|..)?
//   |[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|..)?
//   |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
// Lm, Lo and marks are of both cases. In the first form a word ends with a lower-case run; where
// the upper run is not followed by one, it gives back all after its last character of both cases.

#include "core/text/tokenizer/text_scanner.h"

namespace xrun {

namespace {

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

LetterCase case_at(const Scanner& in, size_t at) {
  if (at >= in.size()) return LetterCase::kNone;
  const auto c = static_cast<unsigned char>(in.byte(at));
  if (c >= 128) return case_of(in.category_at(at));
  return c >= 'a' && c <= 'z'   ? LetterCase::kLower
         : c >= 'A' && c <= 'Z' ? LetterCase::kUpper
                                : LetterCase::kNone;
}

// The two ends that a word may have which begins at a place; 0: none.
struct WordEnds {
  size_t lower;  // of the first form
  size_t upper;  // of the second one
};

WordEnds word_ends(const Scanner& in, size_t begin) {
  size_t at = begin, after_both = 0;
  LetterCase k = case_at(in, at);
  for (; k == LetterCase::kUpper || k == LetterCase::kBoth; k = case_at(in, at)) {
    at = in.next(at);
    if (k == LetterCase::kBoth) after_both = at;
  }
  const size_t upper_end = at;
  if (k != LetterCase::kLower) return {after_both, upper_end > begin ? upper_end : 0};
  for (; k == LetterCase::kLower || k == LetterCase::kBoth; k = case_at(in, at)) at = in.next(at);
  return {at, at};
}

struct CasedNext {
  CasedWords options;

  size_t with_contraction(const Scanner& in, size_t end) const {
    if (!options.contractions || in.byte(end) != '\'') return end;
    return end + contraction(in, end, true);
  }

  size_t operator()(const Scanner& in, size_t at) const {
    const CharKind kind = in.kind(at);
    if (kind == CharKind::kNumber) return in.run(at, kind, options.digits);
    const size_t after = in.next(at);
    // A letter, or one character that is no letter, number or line end before one.
    const bool may_lead = kind != CharKind::kLetter && !in.is_line_end(at);
    const WordEnds led = may_lead ? word_ends(in, after) : WordEnds{0, 0};
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

}  // namespace

std::unique_ptr<const TextPattern> make_cased_splitter(CasedWords options) {
  return make_tiling_splitter(CasedNext{options});
}

}  // namespace xrun
