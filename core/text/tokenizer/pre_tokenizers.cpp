// The pre-tokenizers of Hugging Face's tokenizers. kPreTokenizers at the end lists them.

#include "core/text/tokenizer/pre_tokenizers.h"

#include <algorithm>

#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/text_pattern.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/unicode_sets.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

constexpr size_t kRetainedPieces = size_t{1} << 18;  // capacity that a thread keeps

// The treatment of matches, as in tokenizers' SplitDelimiterBehavior.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

SplitBehavior read_behavior(const ComponentSpec& spec) {
  constexpr std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  const std::string& name = spec.text("behavior");
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  throw Error(
      fmt::format("{}.behavior: got \"{}\", wanted Removed, Isolated, MergedWithPrevious, "
                  "MergedWithNext or Contiguous",
                  spec.where(), name));
}

// True if stretch `i` joins the one before it.
bool joins_previous(const std::vector<Stretch>& s, size_t i, SplitBehavior behavior) {
  if (i == 0) return false;
  switch (behavior) {
    // "a--b", matches of "-": Contiguous a|--|b, MergedWithPrevious a-|-|b, MergedWithNext a|-|-b,
    // Isolated a|-|-|b, Removed a|b.
    case SplitBehavior::kContiguous: return s[i].is_match == s[i - 1].is_match;
    case SplitBehavior::kMergedWithPrevious: return s[i].is_match && !s[i - 1].is_match;
    case SplitBehavior::kMergedWithNext: return s[i - 1].is_match && !s[i].is_match;
    default: return false;
  }
}

void add_pieces(const std::vector<Stretch>& stretches, uint32_t base, SplitBehavior behavior,
                std::vector<ByteRange>& out) {
  // Others may join an empty stretch; a piece that stays empty is removed at the end.
  const auto first = int64_t(out.size());
  bool has_empty = false;
  for (size_t i = 0; i < stretches.size(); ++i) {
    const Stretch& s = stretches[i];
    if (s.is_match && behavior == SplitBehavior::kRemoved) continue;
    if (int64_t(out.size()) > first && joins_previous(stretches, i, behavior)) {
      out.back().end = base + s.end;
    } else {
      out.push_back({base + s.begin, base + s.end});
      has_empty = has_empty || s.begin == s.end;
    }
  }
  if (!has_empty) return;
  const auto is_empty = [](const ByteRange& piece) { return piece.begin == piece.end; };
  out.erase(std::remove_if(out.begin() + first, out.end(), is_empty), out.end());
}

// Cuts every piece at the matches of a pattern; `invert` swaps matches and the text between them.
void split_pieces(PieceList& list, const TextPattern& pattern, SplitBehavior behavior,
                  bool invert = false) {
  thread_local std::vector<ByteRange> cut;
  thread_local std::vector<Stretch> stretches;
  cut.clear();
  const std::string_view text = list.text.text();
  for (const ByteRange piece : list.pieces) {
    stretches.clear();
    pattern.find(text.substr(piece.begin, piece.end - piece.begin), stretches);
    if (invert) {
      for (Stretch& s : stretches) s.is_match = !s.is_match;
    }
    add_pieces(stretches, piece.begin, behavior, cut);
  }
  // The old list becomes the buffer of the next call.
  list.pieces.swap(cut);
  if (std::max(cut.capacity(), stretches.capacity()) > kRetainedPieces) {
    cut = {};
    stretches = {};
  }
}

// Spells the pieces in the byte alphabet, for a stage that must see the spelling.
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

bool is_space(uint32_t c) { return char_kind(c) == CharKind::kSpace; }

// BertPreTokenizer: cuts at spaces, which are removed, and around every punctuation character.
class BertPreTokenizer : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    split_pieces(list, *space_, SplitBehavior::kRemoved);
    split_pieces(list, *mark_, SplitBehavior::kIsolated);
  }
  SafeSplit split_after(SafeSplit split) const override {
    // A cut beside a space separates pieces anyway.
    return split == SafeSplit::kSpace || split == SafeSplit::kLine ? SafeSplit::kPiece : split;
  }

 private:
  std::unique_ptr<const TextPattern> space_ = make_character_pattern(&is_space);
  std::unique_ptr<const TextPattern> mark_ = make_character_pattern(&is_punctuation);
};

// ByteLevel: GPT-2's regex. The pieces keep the text's own bytes; the model reads them through the
// byte alphabet, in which its vocabulary is spelled.
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
    // Only a part that begins with a space gets no further one.
    if (prefix_space_ && split != SafeSplit::kSpace) return SafeSplit::kNone;
    return splitter_ ? splitter_->split_after(split) : split;
  }
  bool maps_bytes() const override { return true; }

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

 private:
  std::unique_ptr<const PreTokenizer> inner_;
};

// Digits: separates numbers from the rest, as runs or digit by digit.
class DigitsPreTokenizer : public PreTokenizer {
 public:
  explicit DigitsPreTokenizer(const ComponentSpec& spec)
      : behavior_(spec.boolean("individual_digits", false) ? SplitBehavior::kIsolated
                                                           : SplitBehavior::kContiguous),
        digit_(make_character_pattern(&is_numeric)) {}
  void apply(PieceList& list) const override { split_pieces(list, *digit_, behavior_); }
  SafeSplit split_after(SafeSplit split) const override { return split; }

 private:
  SplitBehavior behavior_;
  std::unique_ptr<const TextPattern> digit_;
};

// Metaspace: spaces become a visible mark, which may be put before the text and begins a piece.
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
  // Text that begins with a space or a mark gets no further mark.
  SafeSplit split_after(SafeSplit split) const override {
    if (options_.replacement != "\u2581") return SafeSplit::kNone;
    if (split == SafeSplit::kSpace || split == SafeSplit::kMark) {
      return options_.split ? SafeSplit::kPiece : SafeSplit::kMark;
    }
    return options_.scheme == PrependScheme::kAlways ? SafeSplit::kNone : split;
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

// Punctuation: cuts at every punctuation character; "behavior" defaults to Isolated.
class PunctuationPreTokenizer : public PreTokenizer {
 public:
  explicit PunctuationPreTokenizer(const ComponentSpec& spec)
      : mark_(make_character_pattern(&is_punctuation)),
        behavior_(spec.has("behavior") ? read_behavior(spec) : SplitBehavior::kIsolated) {}
  void apply(PieceList& list) const override { split_pieces(list, *mark_, behavior_); }
  SafeSplit split_after(SafeSplit split) const override { return split; }

 private:
  std::unique_ptr<const TextPattern> mark_;
  SplitBehavior behavior_;
};

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(const ComponentSpec& spec)
      : stages_(make_each(spec.list("pretokenizers"), &make_pre_tokenizer)) {
    for (const ComponentSpec& stage : spec.list("pretokenizers")) paths_.push_back(stage.where());
  }
  void apply(PieceList& list) const override {
    for (size_t i = 0; i < stages_.size(); ++i) {
      run_stage(paths_[i], [&] {
        stages_[i]->apply(list);
        // If only the model follows ByteLevel, the pieces keep the text's own bytes.
        if (stages_[i]->maps_bytes() && i + 1 < stages_.size()) spell_pieces(list);
      });
    }
  }
  // No later stage joins what one has cut; spelled bytes contain no spaces.
  SafeSplit split_after(SafeSplit split) const override {
    for (size_t i = 0; i < stages_.size() && split != SafeSplit::kPiece; ++i) {
      if (i > 0 && stages_[i - 1]->maps_bytes()) return SafeSplit::kNone;
      split = stages_[i]->split_after(split);
    }
    return split;
  }
  bool maps_bytes() const override { return !stages_.empty() && stages_.back()->maps_bytes(); }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> stages_;
  std::vector<std::string> paths_;  // the path of each stage in the file
};

// Split: cuts at the matches of a string or a regex.
class SplitPreTokenizer : public PreTokenizer {
 public:
  explicit SplitPreTokenizer(const ComponentSpec& spec)
      : pattern_(make_text_pattern(spec)),
        behavior_(read_behavior(spec)),
        invert_(spec.boolean("invert", false)) {}
  void apply(PieceList& list) const override { split_pieces(list, *pattern_, behavior_, invert_); }
  SafeSplit split_after(SafeSplit split) const override {
    split = pattern_->split_after(split);
    // Any other behaviour may join stretches across the split.
    const bool joins = split == SafeSplit::kPiece && behavior_ != SplitBehavior::kIsolated;
    return joins ? SafeSplit::kNone : split;
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// \w+|[^\w\s]+
class WordPattern : public TextPattern {
 public:
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    for (size_t at = 0; at < text.size();) {
      const WordKind kind = kind_at(text, at);
      size_t end = at + utf8_size(text[at]);
      while (end < text.size() && kind_at(text, end) == kind) end += utf8_size(text[end]);
      out.push_back({uint32_t(at), uint32_t(end), kind != WordKind::kSpace});
      at = end;
    }
  }

 private:
  enum class WordKind { kSpace, kWord, kOther };
  static WordKind kind_at(std::string_view text, size_t at) {
    const uint32_t c = utf8_character(text, at);
    return is_word(c) ? WordKind::kWord : is_space(c) ? WordKind::kSpace : WordKind::kOther;
  }
};

// Whitespace: runs of word characters, and runs of other characters that are not spaces.
class WhitespacePreTokenizer : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    // Inverted: the matches stay, the spaces between them are removed.
    split_pieces(list, WordPattern(), SplitBehavior::kRemoved, true);
  }
  SafeSplit split_after(SafeSplit split) const override {
    return split == SafeSplit::kNone ? SafeSplit::kNone : SafeSplit::kPiece;
  }
};

// WhitespaceSplit: cuts at spaces, which are removed.
class WhitespaceSplitPreTokenizer : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    split_pieces(list, *space_, SplitBehavior::kRemoved);
  }
  SafeSplit split_after(SafeSplit split) const override {
    return split == SafeSplit::kSpace || split == SafeSplit::kLine ? SafeSplit::kPiece : split;
  }

 private:
  std::unique_ptr<const TextPattern> space_ = make_character_pattern(&is_space);
};

constexpr ComponentType<PreTokenizer> kPreTokenizers[] = {
    {"BertPreTokenizer", make_component<PreTokenizer, BertPreTokenizer>},
    {"ByteLevel", make_component<PreTokenizer, ByteLevelPreTokenizer>},
    {"Digits", make_component<PreTokenizer, DigitsPreTokenizer>},
    {"Metaspace", make_component<PreTokenizer, MetaspacePreTokenizer>},
    {"Punctuation", make_component<PreTokenizer, PunctuationPreTokenizer>},
    {"Sequence", make_component<PreTokenizer, SequencePreTokenizer>},
    {"Split", make_component<PreTokenizer, SplitPreTokenizer>},
    {"Whitespace", make_component<PreTokenizer, WhitespacePreTokenizer>},
    {"WhitespaceSplit", make_component<PreTokenizer, WhitespaceSplitPreTokenizer>},
};

}  // namespace

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const ComponentSpec& spec) {
  return make_from_table<PreTokenizer>(kPreTokenizers, spec);
}

std::unique_ptr<const PreTokenizer> make_spelling(std::unique_ptr<const PreTokenizer> inner) {
  return std::make_unique<SpellingPreTokenizer>(std::move(inner));
}

MetaspaceOptions read_metaspace(const ComponentSpec& spec) {
  MetaspaceOptions options;
  options.replacement = spec.character("replacement");
  if (spec.has("prepend_scheme")) {
    const std::string& scheme = spec.text("prepend_scheme");
    XRUN_CHECK(scheme == "first" || scheme == "never" || scheme == "always",
               "{}.prepend_scheme: got \"{}\", wanted first, never or always", spec.where(),
               scheme);
    options.scheme = scheme == "first"   ? PrependScheme::kFirst
                     : scheme == "never" ? PrependScheme::kNever
                                         : PrependScheme::kAlways;
  }
  // The older spelling of "never".
  if (!spec.boolean("add_prefix_space", true)) options.scheme = PrependScheme::kNever;
  options.split = spec.boolean("split", true);
  return options;
}

}  // namespace xrun
