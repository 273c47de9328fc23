#pragma once
// Pre-tokenizers: how tokenizer.json cuts a normalised text into the pieces that the model sees.

#include <vector>

#include "core/text/tokenizer/aligned_text.h"
#include "core/text/tokenizer/text_pattern.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

// A text and its pieces: byte ranges of the text, in order, never empty. Pieces need not tile the
// text (a removed delimiter).
struct PieceList {
  AlignedText text;
  std::vector<ByteRange> pieces;
};

// Immutable, thread-safe. One file a type: pre_tokenizer_*.cpp.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts every piece further, or changes its text.
  virtual void apply(PieceList& list) const = 0;
  // Returns what is left of a border: kPiece where a piece always ends; the border itself where no
  // piece may end but both sides are cut as if the other were not there.
  virtual Border border_after(Border border) const {
    (void)border;
    return Border::kNone;
  }
  // Whether the model sees the bytes of a piece through the byte-level alphabet.
  virtual bool maps_bytes() const { return false; }
};

// What becomes of the matches of a pattern that cuts (tokenizers' SplitDelimiterBehavior).
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Reads a component's "behavior". Throws Error that names the place if it is none of the five.
SplitBehavior read_behavior(const ComponentSpec& spec);

// Cuts every piece at the matches of a pattern; `invert` swaps matches and what lies between.
void split_pieces(PieceList& list, const TextPattern& pattern, SplitBehavior behavior, bool invert);

// Spells the text in the byte alphabet, for what must see the spelling itself.
void spell_pieces(PieceList& list);
// Returns a pre-tokenizer that spells what `inner`, which maps bytes, has cut.
std::unique_ptr<const PreTokenizer> make_spelling(std::unique_ptr<const PreTokenizer> inner);

}  // namespace xrun
