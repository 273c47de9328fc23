#pragma once
// Pre-tokenizers of tokenizer.json: they cut a normalised text into the pieces that the model sees.

#include <vector>

#include "core/text/tokenizer/aligned_text.h"
#include "core/text/tokenizer/safe_split.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

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
  // Returns what this stage leaves of a split point: kPiece if a piece always ends there; the same
  // kind if no piece can end there and each side is cut as it would be alone.
  virtual SafeSplit split_after(SafeSplit split) const {
    (void)split;
    return SafeSplit::kNone;
  }
  // True if the model reads the bytes of a piece through the byte alphabet.
  virtual bool maps_bytes() const { return false; }
};

// Makes the pre-tokenizer of a spec. Throws Error naming the path and what is wrong.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const ComponentSpec& spec);

// Returns a pre-tokenizer that spells the pieces of `inner`, which maps bytes, in the byte
// alphabet.
std::unique_ptr<const PreTokenizer> make_spelling(std::unique_ptr<const PreTokenizer> inner);

// The options that the Metaspace pre-tokenizer and the Metaspace decoder share.
enum class PrependScheme { kFirst, kNever, kAlways };
struct MetaspaceOptions {
  std::string replacement;  // one character, usually U+2581
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};
// Throws Error naming the path if a member is wrong.
MetaspaceOptions read_metaspace(const ComponentSpec& spec);

}  // namespace xrun
