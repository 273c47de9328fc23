// ByteLevel: GPT-2's split, after which the model reads bytes through its alphabet. The pieces keep
// their own bytes; the vocabulary is what is spelled in the alphabet (byte_alphabet.h).

#include "core/text/pre_tokenizer.h"

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
  bool maps_bytes() const override { return true; }

 private:
  std::unique_ptr<const TextPattern> splitter_;
  bool prefix_space_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<ByteLevel>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("ByteLevel", make);

}  // namespace

}  // namespace xrun
