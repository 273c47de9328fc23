// The Metaspace components of tokenizer.json. The pre-tokenizer turns spaces into visible marks, at
// which pieces begin, and may put one before the text. The decoder turns marks into spaces, but
// removes those of the first token if the pre-tokenizer may have put one there.

#include "core/text/tokenizer/pre_tokenizers.h"
#include "core/text/tokenizer/text_pattern.h"
#include "core/text/tokenizer/token_decoders.h"

namespace xrun {

namespace {

// The options that the pre-tokenizer and the decoder share.
enum class PrependScheme { kFirst, kNever, kAlways };
struct MetaspaceOptions {
  std::string replacement;  // one character, usually U+2581
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

MetaspaceOptions read_metaspace(const ComponentSpec& spec) {
  MetaspaceOptions options;
  options.replacement = spec.character("replacement");
  if (spec.has("prepend_scheme")) {
    const std::string& scheme = spec.text("prepend_scheme");
    XRUN_CHECK(scheme == "first" || scheme == "never" || scheme == "always",
               "{}.prepend_scheme: got \"{}\", wanted first, never or always", spec.where(),
               scheme);
    // first: only at the beginning of the input.
    options.scheme = scheme == "first"   ? PrependScheme::kFirst
                     : scheme == "never" ? PrependScheme::kNever
                                         : PrependScheme::kAlways;
  }
  // The older spelling of "never".
  if (!spec.boolean("add_prefix_space", true)) options.scheme = PrependScheme::kNever;
  options.split = spec.boolean("split", true);
  return options;
}

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const ComponentSpec& spec)
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
    if (options_.split) split_pieces(list, *mark_, SplitBehavior::kMergedWithNext);
  }
  // Text that begins with a space or a mark does not get another one.
  SafeSplit split_after(SafeSplit split) const override {
    if (options_.replacement != "\u2581") return SafeSplit::kNone;
    // With `split` the mark begins a piece, so nothing crosses the cut.
    if (split == SafeSplit::kSpace || split == SafeSplit::kMark) {
      return options_.split ? SafeSplit::kPiece : SafeSplit::kMark;
    }
    // "always" would put a mark before the text after the split, too.
    return options_.scheme == PrependScheme::kAlways ? SafeSplit::kNone : split;
  }
  void describe(TextSpelling& spelling) const override {
    spelling.marks_spaces = options_.replacement == "\u2581";
    if (!spelling.marks_spaces) spelling.exact = false;
    if (options_.scheme == PrependScheme::kNever) return;
    spelling.add_prefix(PrefixSpace::kIfMissing, options_.scheme == PrependScheme::kFirst
                                                     ? PrefixScope::kText
                                                     : PrefixScope::kStretches);
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
           // The first piece of the input, not the first one after an added token.
           (options_.scheme == PrependScheme::kFirst &&
            from.origin(piece.begin, piece.end).begin == 0);
  }

  MetaspaceOptions options_;
  std::unique_ptr<const TextPattern> mark_;
};

// The mark becomes a space; in the first token it disappears unless the scheme is "never".
class MetaspaceDecoder : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(const ComponentSpec& spec) : options_(read_metaspace(spec)) {}
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return make_token_stage(input, next, [this](std::string_view token, size_t index) {
      // The mark that the pre-tokenizer put before the text.
      const bool prefixed = index == 0 && options_.scheme != PrependScheme::kNever;
      return replaced(token, options_.replacement, prefixed ? "" : " ");
    });
  }

 private:
  MetaspaceOptions options_;
};

}  // namespace

std::unique_ptr<const PreTokenizer> make_metaspace_pre_tokenizer(const ComponentSpec& spec) {
  return make_component<PreTokenizer, MetaspacePreTokenizer>(spec);
}

std::unique_ptr<const TokenDecoder> make_metaspace_decoder(const ComponentSpec& spec) {
  return make_component<TokenDecoder, MetaspaceDecoder>(spec);
}

}  // namespace xrun
