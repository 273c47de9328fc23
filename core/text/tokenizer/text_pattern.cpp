// Literal and single-character patterns, and regexes in PCRE2 with its JIT.
//
// PCRE2 has its own, older category tables. It sees a character whose category has changed since as
// an older character of the same category and size, so that \p{..} and \s mean what they mean
// elsewhere in the tokenizer.

#include "core/text/tokenizer/text_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <string>

#include "core/text/tokenizer/regex_syntax.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

// A string that is not empty.
class LiteralPattern : public TextPattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    size_t at = 0;
    while (true) {
      const size_t hit = text.find(literal_, at);
      if (hit == std::string_view::npos) break;
      if (hit > at) out.push_back({uint32_t(at), uint32_t(hit), false});
      at = hit + literal_.size();
      out.push_back({uint32_t(hit), uint32_t(at), true});
    }
    if (at < text.size()) out.push_back({uint32_t(at), uint32_t(text.size()), false});
  }
  // No space is adjacent to a mark.
  SafeSplit split_after(SafeSplit split) const override {
    return literal_ == " " && split == SafeSplit::kMark ? split : SafeSplit::kNone;
  }

 private:
  std::string literal_;
};

class CharacterPattern : public TextPattern {
 public:
  explicit CharacterPattern(bool (*test)(uint32_t)) : test_(test) {
    for (uint32_t c = 0; c < 128; ++c) ascii_[c] = test(c);
  }
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t next = at + utf8_size(text[at]);
      if (matches(text, at)) {
        if (done < at) out.push_back({uint32_t(done), uint32_t(at), false});
        out.push_back({uint32_t(at), uint32_t(next), true});
        done = next;
      }
      at = next;
    }
    if (done < text.size()) out.push_back({uint32_t(done), uint32_t(text.size()), false});
  }

 private:
  bool matches(std::string_view text, size_t at) const {
    const auto c = static_cast<unsigned char>(text[at]);
    return c < 128 ? ascii_[c] : test_(utf8_character(text, at));
  }
  bool (*test_)(uint32_t);
  std::array<bool, 128> ascii_;
};

constexpr uint32_t kMatchLimit = 10'000'000;  // steps of one match, about a tenth of a second

// Older characters of the categories that have gained some. Those of three bytes are below and
// above the Han ideographs, so that ranges of scripts still separate them.
struct OlderCharacter {
  Category category;
  std::string_view low;   // three bytes, below U+4E00
  std::string_view high;  // three bytes, above the ideographs
  std::string_view wide;  // four bytes
};
constexpr OlderCharacter kOlderCharacters[] = {
    {Category::kLl, "\u1e01", "\ua723", "\U00010428"},
    {Category::kLm, "\u1d2c", "\ua717", "\U00016b40"},
    {Category::kLo, "\u0905", "\ua000", "\U00010280"},
    {Category::kLu, "\u1e00", "\ua722", "\U00010400"},
    {Category::kMc, "\u0903", "\ua823", "\U00011000"},
    {Category::kMn, "\u0901", "\ua802", "\U000101fd"},
    {Category::kNd, "\u0966", "\ua8d0", "\U000104a0"},
    {Category::kNo, "\u09f4", "\ua830", "\U00010107"},
    {Category::kCf, "\u2060", "\ufff9", "\U000110bd"},
    {Category::kPd, "\u1400", "\ufe58", "\U00010ead"},
    {Category::kPo, "\u0964", "\ua60d", "\U00010100"},
    {Category::kSm, "\u2044", "\ufb29", "\U0001d6c1"},
    {Category::kSo, "\u2100", "\ua490", "\U00010137"},
};

// Returns the character that PCRE2 gets instead of `c`, of the same `size` in bytes; "" if it gets
// `c`.
std::string_view stand_in(uint32_t c, uint32_t size) {
  if (c != 0x180E && !(unicode_properties(c) & kNewer)) return {};  // U+180E is \s for PCRE2 alone
  if (c >= 0x20000 && category(c) == Category::kLo) return "\U00020000";  // an ideograph
  for (const OlderCharacter& s : kOlderCharacters) {
    if (s.category == category(c)) return size == 4 ? s.wide : c < 0x4E00 ? s.low : s.high;
  }
  return {};
}

// Returns the text for PCRE2: `text` itself, or `shown` with the stand-ins.
std::string_view shown_to_pcre2(std::string_view text, std::string& shown) {
  for (size_t at = 0; at < text.size();) {
    const uint32_t size = utf8_size(text[at]);
    // Only characters of three and four bytes have changed.
    if (size > 2) {
      const std::string_view other = stand_in(utf8_character(text, at), size);
      if (other.size() == size) {
        if (shown.empty()) shown.assign(text);
        shown.replace(at, size, other);
      }
    }
    at += size;
  }
  return shown.empty() ? text : std::string_view(shown);
}

std::string pcre2_message(int code) {
  unsigned char buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

// One JIT stack per thread: its default of 32 KiB is too small for patterns that backtrack far.
pcre2_jit_stack* thread_stack(void*) {
  struct FreeJitStack {
    void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
  };
  thread_local const std::unique_ptr<pcre2_jit_stack, FreeJitStack> stack(
      pcre2_jit_stack_create(64 << 10, 16 << 20, nullptr));
  return stack.get();
}

struct FreePcre2 {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};

class RegexPattern : public TextPattern {
 public:
  RegexPattern(const std::string& regex, const std::string& where)
      : regex_(regex), context_(pcre2_match_context_create(nullptr)) {
    int error = 0;
    PCRE2_SIZE at = 0;
    // As in Ruby syntax, ^ and $ also match at line ends.
    const std::string spelled = pcre2_syntax(regex, where);
    // \C would match a byte, and cut a character.
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                              &error, &at, nullptr));
    XRUN_CHECK(code_ != nullptr, "{}: the regex {} cannot be compiled: {} (at byte {})", where,
               regex_excerpt(spelled, at), pcre2_message(error), at);
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // may fail: the interpreter works too
    pcre2_jit_stack_assign(context_.get(), thread_stack, nullptr);
    pcre2_set_match_limit(context_.get(), kMatchLimit);
  }

  void find(std::string_view text, std::vector<Stretch>& out) const override {
    std::string buffer;
    const std::string_view shown = shown_to_pcre2(text, buffer);
    const std::unique_ptr<pcre2_match_data, FreePcre2> data(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    // After an empty match the search advances by a character; one step beyond the text ends it.
    const auto next = [&](size_t at) {
      return at < text.size() ? at + utf8_size(text[at]) : at + 1;
    };
    size_t done = 0;
    bool matched = false;
    // <=, since an empty match may be at the end of the text.
    for (size_t from = 0; from <= text.size();) {
      // encode_parts has validated the text; a check here would cost a pass over it for each match.
      const int found =
          pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(shown.data()), shown.size(), from,
                      PCRE2_NO_UTF_CHECK, data.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      XRUN_CHECK(found >= 0, "the tokenizer's regex {} failed on a text of {} bytes: {}",
                 regex_excerpt(regex_, 0), text.size(), pcre2_message(found));
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
      const size_t begin = ends[0], end = ends[1];
      // \K in a lookaround may put the start of a match after its end or before the last match.
      XRUN_CHECK(begin <= end && begin >= done, "the tokenizer's regex {} matches backwards",
                 regex_excerpt(regex_, 0));
      // As in the package, no empty match touches the match before it.
      if (matched && begin == end && end == done) {
        from = next(end);
        continue;
      }
      matched = true;
      if (begin > done) out.push_back({uint32_t(done), uint32_t(begin), false});
      out.push_back({uint32_t(begin), uint32_t(end), true});
      done = end;
      from = end > begin ? end : next(end);
    }
    if (done < text.size()) out.push_back({uint32_t(done), uint32_t(text.size()), false});
  }

 private:
  std::string regex_;
  std::unique_ptr<pcre2_code, FreePcre2> code_;
  std::unique_ptr<pcre2_match_context, FreePcre2> context_;
};

}  // namespace

std::unique_ptr<const TextPattern> make_character_pattern(bool (*test)(uint32_t code_point)) {
  return std::make_unique<CharacterPattern>(test);
}

std::unique_ptr<const TextPattern> make_literal_pattern(std::string literal) {
  return std::make_unique<LiteralPattern>(std::move(literal));
}

std::unique_ptr<const TextPattern> make_regex_pattern(const std::string& regex,
                                                      const std::string& where) {
  return std::make_unique<RegexPattern>(regex, where);
}

std::unique_ptr<const TextPattern> make_text_pattern(const ComponentSpec& spec) {
  const ComponentSpec pattern = spec.member("pattern");
  // The package turns the string into a regex: an empty one matches before every character.
  if (pattern.has("String") && !pattern.text("String").empty()) {
    return make_literal_pattern(pattern.text("String"));
  }
  if (pattern.has("String")) return make_regex_pattern("", pattern.where());
  const std::string& regex = pattern.text("Regex");
  if (auto splitter = make_known_splitter(regex)) return splitter;
  return make_regex_pattern(regex, pattern.where());
}

}  // namespace xrun
