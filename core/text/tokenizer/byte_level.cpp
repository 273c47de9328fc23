// The ByteLevel components of tokenizer.json, for vocabularies that spell bytes in GPT-2's
// alphabet. The model reads a text's own bytes through the alphabet. They are spelled out only by
// the normalizer, before another pre-tokenizer, and for a model that cannot map bytes. The
// post-processor trims offsets as Roberta's does, so it is in post_processors.cpp.

#include "core/base/utf8.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/normalizers.h"
#include "core/text/tokenizer/pre_tokenizers.h"
#include "core/text/tokenizer/text_pattern.h"
#include "core/text/tokenizer/token_decoders.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

void spell_pieces(PieceList& list) {
  AlignedTextBuilder builder(list.text);
  uint32_t size = 0;
  for (ByteRange& piece : list.pieces) {
    const uint32_t begin = size;
    size += uint32_t(insert_spelled(builder, list.text, piece.begin, piece.end));
    piece = {begin, size};
  }
  list.text = builder.finish();
}

namespace {

// Replaces every byte by its character of the byte alphabet.
class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    AlignedTextBuilder builder(text);
    insert_spelled(builder, text, 0, text.size());
    text = builder.finish();
  }
  void describe(TextSpelling& spelling) const override { spelling.byte_level = true; }
};

// Cuts by GPT-2's regex.
class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const ComponentSpec& spec)
      : splitter_(spec.boolean("use_regex", true) ? make_gpt2_splitter() : nullptr),
        prefix_space_(spec.boolean("add_prefix_space")) {}
  void apply(PieceList& list) const override {
    if (prefix_space_) add_prefix_spaces(list);
    if (splitter_) split_pieces(list, *splitter_, SplitBehavior::kIsolated);
  }
  SafeSplit split_after(SafeSplit split) const override {
    // Only a part that begins with a space does not get another one.
    if (prefix_space_ && split != SafeSplit::kSpace) return SafeSplit::kNone;
    return splitter_ ? splitter_->split_after(split) : split;
  }
  bool maps_bytes() const override { return true; }
  void describe(TextSpelling& spelling) const override {
    spelling.byte_level = true;
    if (prefix_space_) spelling.add_prefix(PrefixSpace::kIfMissing, PrefixScope::kStretches);
  }

 private:
  // Puts a space before every piece that does not begin with one.
  static void add_prefix_spaces(PieceList& list) {
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

  std::unique_ptr<const TextPattern> splitter_;
  bool prefix_space_;
};

class SpellingPreTokenizer : public PreTokenizer {
 public:
  explicit SpellingPreTokenizer(std::unique_ptr<const PreTokenizer> inner)
      : inner_(std::move(inner)) {}
  void apply(PieceList& list) const override {
    inner_->apply(list);
    spell_pieces(list);
  }
  SafeSplit split_after(SafeSplit split) const override {
    // Spelled bytes have no spaces or marks by which a later stage could cut.
    return inner_->split_after(split) == SafeSplit::kPiece ? SafeSplit::kPiece : SafeSplit::kNone;
  }
  void describe(TextSpelling& spelling) const override { inner_->describe(spelling); }

 private:
  std::unique_ptr<const PreTokenizer> inner_;
};

// Spellings become bytes; invalid UTF-8 becomes U+FFFD. All tokens become one.
class ByteLevelDecoder : public TokenDecoder {
 public:
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return std::make_unique<ByteLevelStage>(input, next);
  }
  DecoderInput output(DecoderInput) const override { return DecoderInput::kFragments; }

 private:
  class ByteLevelStage : public DecodeStage {
   public:
    ByteLevelStage(DecoderInput input, DecodeStage& next) : input_(input), next_(next) {}
    void push(std::string_view text) override {
      // Fragments are parts of one token, whose spelling can only be read whole.
      if (input_ == DecoderInput::kFragments) {
        whole_ += text;
        return;
      }
      take(text);
      // A character may be spread over several tokens: its first bytes wait for the rest.
      const size_t end = complete_end(bytes_);
      if (end == 0) return;
      next_.push(repair_utf8(std::string_view(bytes_).substr(0, end)));
      bytes_.erase(0, end);
    }
    void finish() override {
      if (input_ == DecoderInput::kFragments) take(whole_);
      if (!bytes_.empty()) next_.push(repair_utf8(bytes_));
      next_.finish();
    }

   private:
    // Returns the start of the last character if more bytes may complete it, else the size.
    static size_t complete_end(std::string_view bytes) {
      size_t at = bytes.size();
      for (int back = 0; back < 3 && at > 0; ++back) {
        --at;
        if (is_continuation(bytes[at])) continue;
        // 0xC2 is the lowest lead byte of a character of several bytes.
        const bool open = static_cast<unsigned char>(bytes[at]) >= 0xC2 &&
                          utf8_size(bytes[at]) > bytes.size() - at;
        return open ? at : bytes.size();
      }
      return bytes.size();
    }
    void take(std::string_view token) {
      if (!append_unspelled(bytes_, token)) bytes_ += token;  // not in the alphabet: unchanged
    }

    DecoderInput input_;
    DecodeStage& next_;
    std::string bytes_;
    std::string whole_;
  };
};

}  // namespace

std::unique_ptr<const Normalizer> make_byte_level_normalizer(const ComponentSpec& spec) {
  return make_component<Normalizer, ByteLevelNormalizer>(spec);
}

std::unique_ptr<const PreTokenizer> make_byte_level_pre_tokenizer(const ComponentSpec& spec) {
  return make_component<PreTokenizer, ByteLevelPreTokenizer>(spec);
}

std::unique_ptr<const TokenDecoder> make_byte_level_decoder(const ComponentSpec& spec) {
  return make_component<TokenDecoder, ByteLevelDecoder>(spec);
}

std::unique_ptr<const PreTokenizer> make_spelling(std::unique_ptr<const PreTokenizer> inner) {
  return std::make_unique<SpellingPreTokenizer>(std::move(inner));
}

}  // namespace xrun
