#include "core/text/tokenizer/sentencepiece_model.h"

#include <mutex>

#include "core/base/error.h"
#include "core/text/tokenizer/byte_token.h"
#include "core/text/tokenizer/sentencepiece_library.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

class SentencePieceModel : public TokenModel {
 public:
  SentencePieceModel(const SentencePieceFile& file, std::string bytes,
                     const SentencePieceOptions& options)
      : where_(options.where),
        encoder_(make_sentencepiece_encoder(bytes, where_)),
        adds_prefix_(file.add_dummy_prefix),
        prefix_everywhere_(options.prefix_everywhere),
        cuts_at_spaces_(file.cuts_at_spaces) {
    vocabulary_.reserve(file.pieces.size(), bytes.size());
    is_byte_.resize(file.pieces.size());
    for (size_t id = 0; id < file.pieces.size(); ++id) {
      vocabulary_.add(file.pieces[id].piece, int32_t(id));
      is_byte_[id] = file.pieces[id].kind == PieceKind::kByte;
    }
    vocabulary_.finish(where_);
    if (adds_prefix_) bytes_ = std::move(bytes);
  }

  void tokenize(std::string_view text, std::span<const ByteRange> pieces,
                std::vector<ModelToken>& out) const override {
    for (const ByteRange piece : pieces) add_tokens(*encoder_, text, piece, out);
  }
  void tokenize_inner(std::string_view text, std::span<const ByteRange> pieces,
                      std::vector<ModelToken>& out) const override {
    const SentencePieceEncoder& encoder = prefix_everywhere_ ? *encoder_ : without_prefix();
    for (const ByteRange piece : pieces) add_tokens(encoder, text, piece, out);
  }
  void tokenize_rest(std::string_view text, std::span<const ByteRange> pieces,
                     std::vector<ModelToken>& out) const override {
    for (const ByteRange piece : pieces) add_tokens(without_prefix(), text, piece, out);
  }
  Border border_after(Border border) const override {
    return border == Border::kSpace && cuts_at_spaces_ ? Border::kPiece : Border::kNone;
  }
  // The library takes up to 170 bytes of memory a byte, on each thread.
  size_t max_stretch() const override { return size_t{2} << 20; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  // Made by the first text that needs it.
  const SentencePieceEncoder& without_prefix() const {
    if (!adds_prefix_) return *encoder_;
    std::call_once(made_, [this] {
      // Messages of the format merge: this says normalizer_spec { add_dummy_prefix: false }.
      bare_ = make_sentencepiece_encoder(bytes_ + std::string("\x1a\x02\x18\x00", 4), where_);
    });
    return *bare_;
  }

  void add_tokens(const SentencePieceEncoder& encoder, std::string_view text, ByteRange range,
                  std::vector<ModelToken>& out) const {
    const std::string_view piece = text.substr(range.begin, range.end - range.begin);
    std::vector<SentencePieceToken> tokens;
    const std::string failure = encoder.encode(piece, tokens);
    XRUN_CHECK(failure.empty(), "{}: {}", where_, failure);
    const size_t first = out.size();
    for (const SentencePieceToken& token : tokens) {
      out.push_back({token.id, range.begin + token.begin, range.begin + token.end});
    }
    spread_bytes(text, first, out);
    fill_parts(first, out);
  }

  // Of a character that the normalizer takes apart the library gives the last part all of it and
  // the others nothing; each has a part of it, or a mask would leave them out. A space that the
  // library puts before a text stands for nothing.
  void fill_parts(size_t first, std::vector<ModelToken>& out) const {
    for (size_t i = out.size(); i-- > first + 1;) {
      ModelToken& part = out[i - 1];
      const bool is_part = part.begin == part.end && out[i].begin == part.begin;
      if (is_part && vocabulary_.piece(part.id) != "\u2581") part.end = out[i].end;
    }
  }

  // The library gives the last byte token of a character all of it and the others nothing.
  void spread_bytes(std::string_view text, size_t first, std::vector<ModelToken>& out) const {
    for (size_t begin = first; begin < out.size();) {
      size_t end = begin + 1;
      if (!is_byte_[size_t(out[begin].id)]) {
        begin = end;
        continue;
      }
      // The first byte says how many tokens are of the character.
      const uint32_t size = utf8_size(char(spelled_byte(vocabulary_.piece(out[begin].id))));
      while (end < out.size() && end - begin < size && is_byte_[size_t(out[end].id)]) ++end;
      const uint32_t from = out[begin].begin, to = out[end - 1].end;
      bool exact = to - from == end - begin;
      for (size_t i = begin; i < end && exact; ++i) {
        exact = spelled_byte(vocabulary_.piece(out[i].id)) ==
                static_cast<unsigned char>(text[from + (i - begin)]);
      }
      for (size_t i = begin; i < end; ++i) {
        const auto at = uint32_t(from + (i - begin));
        out[i].begin = exact ? at : from;
        out[i].end = exact ? at + 1 : to;
      }
      begin = end;
    }
  }

  std::string where_;
  std::unique_ptr<const SentencePieceEncoder> encoder_;
  bool adds_prefix_, prefix_everywhere_, cuts_at_spaces_;
  std::string bytes_;  // of the model, for bare_
  mutable std::once_flag made_;
  mutable std::unique_ptr<const SentencePieceEncoder> bare_;  // puts no space before a text
  Vocabulary vocabulary_;
  std::vector<bool> is_byte_;
};

}  // namespace

std::unique_ptr<const TokenModel> make_sentencepiece_model(std::string bytes,
                                                           const SentencePieceOptions& options) {
  const SentencePieceFile file = read_sentencepiece_file(bytes, options.where);
  for (const SentencePiece& piece : file.pieces) {
    const bool hidden =
        piece.kind == PieceKind::kUserDefined && options.special.contains(std::string(piece.piece));
    if (hidden) bytes[piece.kind_at] = char(PieceKind::kControl);
  }
  return std::make_unique<SentencePieceModel>(file, std::string(bytes), options);
}

}  // namespace xrun
