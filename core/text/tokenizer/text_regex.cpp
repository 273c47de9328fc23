// Splitting regexes that have no hand-written splitter, run by PCRE2 with its JIT.
//
// PCRE2 has its own, older category tables. A character whose category is another one there is
// shown to it as an older character of the same category and the same number of bytes, so that
// \p{..} and \s mean what they mean in every other part of the tokenizer.

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

#include "core/text/tokenizer/regex_syntax.h"
#include "core/text/tokenizer/text_pattern.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

constexpr uint32_t kMatchLimit = 10'000'000;  // steps of one match, about a tenth of a second

// Old characters of the categories that have newer ones: of three bytes below and above the Han
// ideographs, so that ranges of other scripts around them tell the same, and of four bytes.
struct StandIn {
  Category category;
  std::string_view low;
  std::string_view high;
  std::string_view wide;  // "" where no newer character has this size
};
constexpr StandIn kStandIns[] = {
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

// Returns the bytes that stand for a character, or "" if PCRE2 may see it as it is.
std::string_view stand_in(uint32_t c, uint32_t size) {
  if (c != 0x180E && !(unicode_properties(c) & kNewer)) return {};  // U+180E is \s for PCRE2 alone
  if (c >= 0x20000 && category(c) == Category::kLo) return "\U00020000";  // an ideograph
  for (const StandIn& s : kStandIns) {
    if (s.category == category(c)) return size == 4 ? s.wide : c < 0x4E00 ? s.low : s.high;
  }
  return {};
}

// Returns the text as PCRE2 shall see it: `text` itself, or `shown` with the stand-ins.
std::string_view shown_to_pcre2(std::string_view text, std::string& shown) {
  for (size_t at = 0; at < text.size();) {
    const uint32_t size = utf8_size(text[at]);
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

// The JIT's own stack, one a thread: the 32 KiB that it takes otherwise are too few for patterns
// that go back far.
pcre2_jit_stack* thread_stack(void*) {
  struct Free {
    void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
  };
  thread_local const std::unique_ptr<pcre2_jit_stack, Free> stack(
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
    // As in Oniguruma's Ruby syntax, ^ and $ also match at line ends.
    const std::string spelled = pcre2_syntax(regex, where);
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                              &error, &at, nullptr));
    XRUN_CHECK(code_ != nullptr, "{}: the regex {} cannot be compiled: {} (at byte {})", where,
               regex_excerpt(spelled, at), pcre2_message(error), at);
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it the interpreter runs
    pcre2_jit_stack_assign(context_.get(), thread_stack, nullptr);
    pcre2_set_match_limit(context_.get(), kMatchLimit);
  }

  void find(std::string_view text, std::vector<Stretch>& out) const override {
    std::string buffer;
    const std::string_view shown = shown_to_pcre2(text, buffer);
    const std::unique_ptr<pcre2_match_data, FreePcre2> data(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    const auto next = [&](size_t at) {
      return at < text.size() ? at + utf8_size(text[at]) : at + 1;
    };
    size_t done = 0;
    bool matched = false;
    for (size_t from = 0; from <= text.size();) {
      const int found =
          pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(shown.data()), shown.size(), from,
                      PCRE2_NO_UTF_CHECK, data.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      XRUN_CHECK(found >= 0, "the tokenizer's regex {} failed on a text of {} bytes: {}",
                 regex_excerpt(regex_, 0), text.size(), pcre2_message(found));
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
      const size_t begin = ends[0], end = ends[1];
      XRUN_CHECK(begin <= end && begin >= done, "the tokenizer's regex {} matches backwards",
                 regex_excerpt(regex_, 0));
      // As in the package no empty match touches the match before it.
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

std::unique_ptr<const TextPattern> make_regex_pattern(const std::string& regex,
                                                      const std::string& where) {
  return std::make_unique<RegexPattern>(regex, where);
}

}  // namespace xrun
