#pragma once
// Pre-tokenizers of tokenizer.json, which cut a normalised text into pieces for the model.

#include <vector>

#include "core/text/tokenizer/aligned_text.h"
#include "core/text/tokenizer/safe_split.h"
#include "core/text/tokenizer/token_bytes.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

class TextPattern;

// A text and its pieces: byte ranges of the text, in order, never empty. Pieces need not tile the
// text (a delimiter may be removed).
struct PieceList {
  AlignedText text;
  std::vector<ByteRange> pieces;
};

// Immutable, thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts every piece further, or changes its text.
  virtual void apply(PieceList& list) const = 0;
  // Returns the split point after this stage: kPiece if a piece always ends there; the same kind if
  // each side is cut as it would be alone.
  virtual SafeSplit split_after(SafeSplit split) const {
    (void)split;
    return SafeSplit::kNone;
  }
  // Returns true if the model reads the bytes of a piece through the byte alphabet.
  virtual bool maps_bytes() const { return false; }
  // Records what this stage does to the spelling of a text; most stages only cut it.
  virtual void describe(TextSpelling& spelling) const { (void)spelling; }
};

// Makes the pre-tokenizer of a spec. Throws Error naming the path and the fault.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const ComponentSpec& spec);

// The pre-tokenizers ByteLevel (byte_level.cpp) and Metaspace (metaspace.cpp).
std::unique_ptr<const PreTokenizer> make_byte_level_pre_tokenizer(const ComponentSpec& spec);
std::unique_ptr<const PreTokenizer> make_metaspace_pre_tokenizer(const ComponentSpec& spec);

// Spells the pieces in the byte alphabet, for a stage that must see the spelling.
void spell_pieces(PieceList& list);
// Returns a pre-tokenizer that spells the pieces of `inner`, which maps bytes.
std::unique_ptr<const PreTokenizer> make_spelling(std::unique_ptr<const PreTokenizer> inner);

// The treatment of matches, as in tokenizers' SplitDelimiterBehavior.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Cuts every piece at the matches of a pattern; `invert` swaps matches and the text between them.
void split_pieces(PieceList& list, const TextPattern& pattern, SplitBehavior behavior,
                  bool invert = false);

}  // namespace xrun
