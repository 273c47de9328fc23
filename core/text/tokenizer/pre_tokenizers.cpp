// The pre-tokenizers of Hugging Face's tokenizers, and the splitting that most of them share.
// kPreTokenizers at the end lists them. ByteLevel and Metaspace share files with their decoders.

#include "core/text/tokenizer/pre_tokenizers.h"

#include <algorithm>

#include "core/text/tokenizer/text_pattern.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/unicode_sets.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

constexpr size_t kRetainedPieces = size_t{1} << 18;  // capacity that a thread keeps

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

// Returns true if stretch `i` joins the one before it.
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
  // An empty stretch may be joined by others; a piece that stays empty is removed at the end.
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
  // An empty match makes an empty piece, which no model takes.
  if (!has_empty) return;
  const auto is_empty = [](const ByteRange& piece) { return piece.begin == piece.end; };
  out.erase(std::remove_if(out.begin() + first, out.end(), is_empty), out.end());
}

}  // namespace

void split_pieces(PieceList& list, const TextPattern& pattern, SplitBehavior behavior,
                  bool invert) {
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

namespace {

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
  // The spaces between the pieces are gone.
  void describe(TextSpelling& spelling) const override { spelling.exact = false; }

 private:
  std::unique_ptr<const TextPattern> space_ = make_character_pattern(&is_space);
  std::unique_ptr<const TextPattern> mark_ = make_character_pattern(&is_punctuation);
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

// Punctuation: cuts at every punctuation character; "behavior" defaults to Isolated.
class PunctuationPreTokenizer : public PreTokenizer {
 public:
  explicit PunctuationPreTokenizer(const ComponentSpec& spec)
      : mark_(make_character_pattern(&is_punctuation)),
        behavior_(spec.has("behavior") ? read_behavior(spec) : SplitBehavior::kIsolated) {}
  void apply(PieceList& list) const override { split_pieces(list, *mark_, behavior_); }
  SafeSplit split_after(SafeSplit split) const override { return split; }
  void describe(TextSpelling& spelling) const override {
    // Removed text is in no token.
    if (behavior_ == SplitBehavior::kRemoved) spelling.exact = false;
  }

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
        // Pieces keep the text's own bytes only if nothing but the model follows ByteLevel.
        if (stages_[i]->maps_bytes() && i + 1 < stages_.size()) spell_pieces(list);
      });
    }
  }
  // No later stage joins what one has cut. Spelled bytes contain no spaces.
  SafeSplit split_after(SafeSplit split) const override {
    for (size_t i = 0; i < stages_.size() && split != SafeSplit::kPiece; ++i) {
      if (i > 0 && stages_[i - 1]->maps_bytes()) return SafeSplit::kNone;
      split = stages_[i]->split_after(split);
    }
    return split;
  }
  bool maps_bytes() const override { return !stages_.empty() && stages_.back()->maps_bytes(); }
  void describe(TextSpelling& spelling) const override {
    for (size_t i = 0; i < stages_.size(); ++i) {
      const PrefixSpace before = spelling.prefix;
      stages_[i]->describe(spelling);
      // After a cut, every piece gets the space.
      if (i > 0 && spelling.prefix != before) spelling.exact = false;
    }
  }

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
  void describe(TextSpelling& spelling) const override {
    if (behavior_ == SplitBehavior::kRemoved) spelling.exact = false;
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
    // Inverted: the spaces between the matches are removed.
    split_pieces(list, WordPattern(), SplitBehavior::kRemoved, true);
  }
  SafeSplit split_after(SafeSplit split) const override {
    return split == SafeSplit::kNone ? SafeSplit::kNone : SafeSplit::kPiece;
  }
  // The spaces between the pieces are gone.
  void describe(TextSpelling& spelling) const override { spelling.exact = false; }
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
  // The spaces between the pieces are gone.
  void describe(TextSpelling& spelling) const override { spelling.exact = false; }

 private:
  std::unique_ptr<const TextPattern> space_ = make_character_pattern(&is_space);
};

constexpr ComponentType<PreTokenizer> kPreTokenizers[] = {
    {"BertPreTokenizer", make_component<PreTokenizer, BertPreTokenizer>},
    {"ByteLevel", make_byte_level_pre_tokenizer},
    {"Digits", make_component<PreTokenizer, DigitsPreTokenizer>},
    {"Metaspace", make_metaspace_pre_tokenizer},
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

}  // namespace xrun
