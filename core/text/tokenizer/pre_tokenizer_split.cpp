// Split: cuts at the matches of a string or a regex.

#include <algorithm>

#include "core/text/tokenizer/pre_tokenizer.h"

namespace xrun {

namespace {

constexpr size_t kKeptPieces = size_t{1} << 18;  // that a thread stays ready for

// Whether stretch `i` is joined to the one before it.
bool joins_previous(const std::vector<Stretch>& s, size_t i, SplitBehavior behavior) {
  if (i == 0) return false;
  switch (behavior) {
    case SplitBehavior::kContiguous: return s[i].is_match == s[i - 1].is_match;
    case SplitBehavior::kMergedWithPrevious: return s[i].is_match && !s[i - 1].is_match;
    case SplitBehavior::kMergedWithNext: return s[i - 1].is_match && !s[i].is_match;
    default: return false;
  }
}

void add_pieces(const std::vector<Stretch>& stretches, uint32_t base, SplitBehavior behavior,
                std::vector<ByteRange>& out) {
  // Empty stretches are pieces that others join, and are left out at last.
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

class Split : public PreTokenizer {
 public:
  explicit Split(const ComponentSpec& spec)
      : pattern_(make_text_pattern(spec)),
        behavior_(read_behavior(spec)),
        invert_(spec.boolean("invert", false)) {}
  void apply(PieceList& list) const override { split_pieces(list, *pattern_, behavior_, invert_); }
  Border border_after(Border border) const override {
    border = pattern_->border_after(border);
    const bool joins = border == Border::kPiece && behavior_ != SplitBehavior::kIsolated;
    return joins ? Border::kNone : border;
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<Split>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("Split", make);

}  // namespace

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
  list.pieces.swap(cut);
  if (std::max(cut.capacity(), stretches.capacity()) > kKeptPieces) {
    cut = {};
    stretches = {};
  }
}

}  // namespace xrun
