#pragma once
// Normalizers of tokenizer.json: they change a text before it is cut into pieces.

#include "core/text/tokenizer/aligned_text.h"
#include "core/text/tokenizer/safe_split.h"
#include "core/text/tokenizer/token_bytes.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

// Immutable, thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Changes the text in place; a text that needs no change stays a view.
  virtual void apply(AlignedText& text) const = 0;
  // apply() for the text after a split point; apply() has changed the text before it.
  virtual void apply_rest(AlignedText& text) const { apply(text); }
  // Returns the split point after this stage (safe_split.h).
  virtual SafeSplit split_after(SafeSplit split) const {
    (void)split;
    return SafeSplit::kNone;
  }
  // Records what this stage does to the spelling of a text.
  virtual void describe(TextSpelling& spelling) const { spelling.exact = false; }
};

// Makes the normalizer of a spec. Throws Error naming the path and the fault.
std::unique_ptr<const Normalizer> make_normalizer(const ComponentSpec& spec);

// The normalizers ByteLevel (byte_level.cpp) and Precompiled (precompiled_normalizer.cpp).
std::unique_ptr<const Normalizer> make_byte_level_normalizer(const ComponentSpec& spec);
std::unique_ptr<const Normalizer> make_precompiled_normalizer(const ComponentSpec& spec);

}  // namespace xrun
