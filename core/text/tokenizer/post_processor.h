#pragma once
// Post-processors: what tokenizer.json does to the tokens of a whole text.

#include <functional>

#include "core/text/tokenizer/tokenizer.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

// What a post-processor may look at.
struct PostContext {
  std::string_view text;  // the input
  // Returns how a token is spelled: in the vocabulary, or in the text where it is an added one,
  // with the spaces that it took.
  std::function<std::string_view(int32_t id, ByteRange range)> spelling;
  bool add_tokens = false;
  bool at_begin = true;  // the tokens begin the text; else they are a later part of it
};

// Immutable, thread-safe. One file a type: post_processor_*.cpp.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // Changes offsets; adds tokens (with empty ranges) where add_tokens is set.
  virtual void apply(Encoding& encoding, const PostContext& context) const = 0;
  // Appends the ids that apply() would put before a text, outermost first.
  virtual void leading(std::vector<int32_t>& ids) const { (void)ids; }
  // Calls `check` with every id that apply() may add, so that the loader can check it.
  virtual void each_id(const std::function<void(int64_t id)>& check) const { (void)check; }
};

}  // namespace xrun
