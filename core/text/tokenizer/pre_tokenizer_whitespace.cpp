// Whitespace: runs of word characters and runs of anything else but spaces, \w+|[^\w\s]+.
// WhitespaceSplit: what stands between spaces.

#include "core/text/tokenizer/pre_tokenizer.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

enum class WordKind { kSpace, kWord, kOther };

bool is_space(uint32_t c) { return char_kind(c) == CharKind::kSpace; }

WordKind word_kind(std::string_view text, size_t at) {
  const uint32_t c = utf8_character(text, at);
  return is_word(c) ? WordKind::kWord : is_space(c) ? WordKind::kSpace : WordKind::kOther;
}

class WordPattern : public TextPattern {
 public:
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    for (size_t at = 0; at < text.size();) {
      const WordKind kind = word_kind(text, at);
      size_t end = at + utf8_size(text[at]);
      while (end < text.size() && word_kind(text, end) == kind) end += utf8_size(text[end]);
      out.push_back({uint32_t(at), uint32_t(end), kind != WordKind::kSpace});
      at = end;
    }
  }
};

class Whitespace : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    split_pieces(list, WordPattern(), SplitBehavior::kRemoved, true);
  }
  Border border_after(Border border) const override {
    return border == Border::kNone ? Border::kNone : Border::kPiece;
  }
};

class WhitespaceSplit : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    split_pieces(list, *space_, SplitBehavior::kRemoved, false);
  }
  Border border_after(Border border) const override {
    return border == Border::kSpace || border == Border::kLine ? Border::kPiece : border;
  }

 private:
  std::unique_ptr<const TextPattern> space_ = make_character_pattern(&is_space);
};

template <class Component>
std::unique_ptr<const PreTokenizer> make(const ComponentSpec&) {
  return std::make_unique<Component>();
}

const bool kAdded[] = {ComponentTable<PreTokenizer>::add("Whitespace", make<Whitespace>),
                       ComponentTable<PreTokenizer>::add("WhitespaceSplit", make<WhitespaceSplit>)};

}  // namespace

}  // namespace xrun
