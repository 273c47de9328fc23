#pragma once
// Normalizers: what tokenizer.json does to a text before it is cut.

#include "core/text/aligned_text.h"
#include "core/text/tokenizer_component.h"

namespace xrun {

// Immutable, thread-safe. One file a type: normalizer_*.cpp.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Changes the text in place; a text that needs no change stays the view it was.
  virtual void apply(AlignedText& text) const = 0;
};

}  // namespace xrun
