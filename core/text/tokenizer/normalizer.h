#pragma once
// Normalizers: what tokenizer.json does to a text before it is cut.

#include "core/text/tokenizer/aligned_text.h"
#include "core/text/tokenizer/text_border.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

// Immutable, thread-safe. One file a type: normalizer_*.cpp.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Changes the text in place; a text that needs no change stays the view it was.
  virtual void apply(AlignedText& text) const = 0;
  // The same for what follows a border of a text whose front apply() has seen.
  virtual void apply_rest(AlignedText& text) const { apply(text); }
  // Returns what is left of a border.
  virtual Border border_after(Border border) const {
    (void)border;
    return Border::kNone;
  }
};

}  // namespace xrun
