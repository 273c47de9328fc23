// The three stages of DeepSeek-V3, each a Split of its own:
//   \p{N}{1,3}
//   [一-龥぀-ゟ゠-ヿ]+
//   [!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+
//   |\s+(?!\S)|\s+
// In the last one numbers and controls that no letter follows are no match.

#include "core/text/tokenizer/text_scanner.h"

namespace xrun {

namespace {

// Matches runs of at most `limit` characters of which `test(scanner, at)` is true.
template <class Test>
class RunSplitter : public TextPattern {
 public:
  RunSplitter(Test test, size_t limit) : test_(test), limit_(limit) {}
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    const Scanner in(text);
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      if (!test_(in, at)) {
        at = in.next(at);
        continue;
      }
      if (done < at) out.push_back({uint32_t(done), uint32_t(at), false});
      size_t end = at;
      for (size_t i = 0; i < limit_ && end < text.size() && test_(in, end); ++i) end = in.next(end);
      out.push_back({uint32_t(at), uint32_t(end), true});
      done = at = end;
    }
    if (done < text.size()) out.push_back({uint32_t(done), uint32_t(text.size()), false});
  }
  Border border_after(Border border) const override { return border; }

 private:
  Test test_;
  size_t limit_;
};

bool is_han_or_kana(const Scanner& in, size_t at) {
  if (static_cast<unsigned char>(in.byte(at)) < 0xE3) return false;  // below U+3000
  const uint32_t c = in.character(at);
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

bool is_number(const Scanner& in, size_t at) { return in.kind(at) == CharKind::kNumber; }

enum class Kind { kLetter, kMark, kPunctuation, kSpace, kOther };

Kind kind_of(const Scanner& in, size_t at) {
  const CharKind kind = in.kind(at);
  if (kind == CharKind::kLetter) return Kind::kLetter;
  if (kind == CharKind::kSpace) return Kind::kSpace;
  const Category c = in.category_at(at);
  if (c == Category::kMc || c == Category::kMe || c == Category::kMn) return Kind::kMark;
  const bool punctuation = c >= Category::kPc && c <= Category::kSo;
  return punctuation ? Kind::kPunctuation : Kind::kOther;
}

bool is_word(const Scanner& in, size_t at) {
  if (at >= in.size()) return false;
  const Kind kind = kind_of(in, at);
  return kind == Kind::kLetter || kind == Kind::kMark;
}

bool is_punctuation(const Scanner& in, size_t at) {
  return at < in.size() && kind_of(in, at) == Kind::kPunctuation;
}

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns the end of the match at a place; the place itself if there is none.
size_t next_deepseek(const Scanner& in, size_t at) {
  const Kind kind = kind_of(in, at);
  size_t end = in.next(at);
  if (kind == Kind::kPunctuation) {
    if (end == at + 1 && is_ascii_letter(in.byte(end))) {
      while (is_ascii_letter(in.byte(end))) ++end;
      return end;
    }
  } else if (is_word(in, at) || (!in.is_line_end(at) && is_word(in, end))) {
    while (is_word(in, end)) end = in.next(end);
    return end;
  }
  if (kind == Kind::kPunctuation || (in.byte(at) == ' ' && is_punctuation(in, end))) {
    while (is_punctuation(in, end)) end = in.next(end);
    while (in.is_line_end(end)) ++end;
    return end;
  }
  return kind == Kind::kSpace ? blanks_end(in, at) : at;
}

class DeepSeekSplitter : public TextPattern {
 public:
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    const Scanner in(text);
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
  Border border_after(Border border) const override { return border_of_words(border); }
};

}  // namespace

std::unique_ptr<const TextPattern> make_deepseek_splitter() {
  return std::make_unique<DeepSeekSplitter>();
}

std::unique_ptr<const TextPattern> make_number_splitter() {
  return std::make_unique<RunSplitter<bool (*)(const Scanner&, size_t)>>(&is_number, 3);
}

std::unique_ptr<const TextPattern> make_han_kana_splitter() {
  return std::make_unique<RunSplitter<bool (*)(const Scanner&, size_t)>>(&is_han_or_kana, SIZE_MAX);
}

}  // namespace xrun
