// ByteLevel: GPT-2's split, after which the model reads bytes through its alphabet. The pieces keep
// their own bytes; the vocabulary is what is spelled in the alphabet (byte_alphabet.h).

#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/pre_tokenizer.h"

namespace xrun {

namespace {

// Puts a space before every piece that does not begin with one.
void add_prefix_spaces(PieceList& list) {
  AlignedTextBuilder builder(list.text);
  const std::string_view text = list.text.text();
  uint32_t size = 0;
  for (ByteRange& piece : list.pieces) {
    const uint32_t begin = size;
    if (text[piece.begin] != ' ') {
      builder.insert(" ", list.text.character_origin(piece.begin));
      ++size;
    }
    builder.copy(piece.begin, piece.end);
    size += piece.end - piece.begin;
    piece = {begin, size};
  }
  list.text = builder.finish();
}

class ByteLevel : public PreTokenizer {
 public:
  explicit ByteLevel(const ComponentSpec& spec)
      : splitter_(spec.boolean("use_regex", true) ? make_gpt2_splitter() : nullptr),
        prefix_space_(spec.boolean("add_prefix_space")) {}
  void apply(PieceList& list) const override {
    if (prefix_space_) add_prefix_spaces(list);
    if (splitter_) split_pieces(list, *splitter_, SplitBehavior::kIsolated, false);
  }
  Border border_after(Border border) const override {
    if (prefix_space_ && border != Border::kSpace) return Border::kNone;
    return splitter_ ? splitter_->border_after(border) : border;
  }
  bool maps_bytes() const override { return true; }

 private:
  std::unique_ptr<const TextPattern> splitter_;
  bool prefix_space_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<ByteLevel>(spec);
}

class Spelling : public PreTokenizer {
 public:
  explicit Spelling(std::unique_ptr<const PreTokenizer> inner) : inner_(std::move(inner)) {}
  void apply(PieceList& list) const override {
    inner_->apply(list);
    spell_pieces(list);
  }
  Border border_after(Border border) const override {
    return inner_->border_after(border) == Border::kPiece ? Border::kPiece : Border::kNone;
  }

 private:
  std::unique_ptr<const PreTokenizer> inner_;
};

const bool kAdded = ComponentTable<PreTokenizer>::add("ByteLevel", make);

}  // namespace

std::unique_ptr<const PreTokenizer> make_spelling(std::unique_ptr<const PreTokenizer> inner) {
  return std::make_unique<Spelling>(std::move(inner));
}

void spell_pieces(PieceList& list) {
  const std::string_view text = list.text.text();
  std::string spelling;
  AlignedTextBuilder builder(list.text);
  uint32_t size = 0;
  for (ByteRange& piece : list.pieces) {
    const uint32_t begin = size;
    for (uint32_t at = piece.begin; at < piece.end; ++at) {
      spelling.clear();
      append_spelled(spelling, text.substr(at, 1));
      builder.insert(spelling, list.text.origin(at, at + 1));
      size += uint32_t(spelling.size());
    }
    piece = {begin, size};
  }
  list.text = builder.finish();
}

}  // namespace xrun
