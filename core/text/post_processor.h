#pragma once
// Post-processors: what tokenizer.json does to the tokens of a whole text.

#include "core/text/tokenizer.h"
#include "core/text/tokenizer_component.h"

#include <functional>

namespace xrun {

// Says how a token is spelled in the vocabulary.
using PieceOf = std::function<std::string_view(int32_t id)>;

// Immutable, thread-safe. One file a type: post_processor_*.cpp.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // Changes offsets; adds tokens (with empty ranges) where add_tokens is set.
  virtual void apply(Encoding& encoding, const PieceOf& piece_of, bool add_tokens) const = 0;
  // Appends the ids that apply() would put before a text, outermost first.
  virtual void leading(std::vector<int32_t>& ids) const { (void)ids; }
  // Calls `check` with every id that apply() may add, so that the loader can check it.
  virtual void each_id(const std::function<void(int64_t id)>& check) const { (void)check; }
};

}  // namespace xrun
