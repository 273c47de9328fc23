// Metaspace: spaces become a visible mark, which may be put before the text and begins a piece.

#include "core/text/tokenizer/metaspace.h"
#include "core/text/tokenizer/pre_tokenizer.h"

namespace xrun {

namespace {

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const ComponentSpec& spec)
      : options_(read_metaspace(spec)), mark_(make_literal_pattern(options_.replacement)) {}

  void apply(PieceList& list) const override {
    AlignedTextBuilder builder(list.text);
    uint32_t size = 0;
    for (ByteRange& piece : list.pieces) {
      const uint32_t begin = size;
      size += write(list.text, piece, builder);
      piece = {begin, size};
    }
    list.text = builder.finish();
    if (options_.split) split_pieces(list, *mark_, SplitBehavior::kMergedWithNext, false);
  }
  // A part that begins with a space or a mark gets no other one.
  Border border_after(Border border) const override {
    if (options_.replacement != "\u2581") return Border::kNone;
    if (border == Border::kSpace || border == Border::kMark) {
      return options_.split ? Border::kPiece : Border::kMark;
    }
    return options_.scheme == PrependScheme::kAlways ? Border::kNone : border;
  }

 private:
  // Writes a piece with its marks; returns the bytes written.
  uint32_t write(const AlignedText& from, ByteRange piece, AlignedTextBuilder& out) const {
    const std::string& mark = options_.replacement;
    const std::string_view text = from.text();
    uint32_t size = 0;
    if (wants_prefix(from, piece)) {
      out.insert(mark, from.character_origin(piece.begin));
      size += uint32_t(mark.size());
    }
    for (uint32_t at = piece.begin; at < piece.end;) {
      uint32_t end = at;
      while (end < piece.end && text[end] != ' ') ++end;
      out.copy(at, end);
      size += end - at;
      for (at = end; at < piece.end && text[at] == ' '; ++at) {
        out.insert(mark, from.origin(at, at + 1));
        size += uint32_t(mark.size());
      }
    }
    return size;
  }

  bool wants_prefix(const AlignedText& from, ByteRange piece) const {
    const std::string_view text = from.text().substr(piece.begin, piece.end - piece.begin);
    if (text[0] == ' ' || text.substr(0, options_.replacement.size()) == options_.replacement) {
      return false;
    }
    return options_.scheme == PrependScheme::kAlways ||
           (options_.scheme == PrependScheme::kFirst &&
            from.origin(piece.begin, piece.end).begin == 0);
  }

  MetaspaceOptions options_;
  std::unique_ptr<const TextPattern> mark_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<Metaspace>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("Metaspace", make);

}  // namespace

}  // namespace xrun
