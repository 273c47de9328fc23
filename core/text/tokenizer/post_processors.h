#pragma once
// Post-processors of tokenizer.json: they add tokens around a text and trim offsets.

#include <functional>
#include <utility>
#include <vector>

#include "core/text/tokenizer/tokenizer.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

struct PostContext {
  std::string_view text;  // the input
  // Returns the spelling of a token in the vocabulary or, for an added token, the text that it
  // covers, stripped spaces included.
  std::function<std::string_view(int32_t id, ByteRange range)> spelling;
  bool add_tokens = false;
  bool at_begin = true;  // the tokens begin the text; false for a later part of it
};

// Immutable, thread-safe.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // Changes offsets; adds tokens (with empty ranges) if add_tokens is set.
  virtual void apply(Encoding& encoding, const PostContext& context) const = 0;
  // Appends the ids that apply() would put before a text, outermost first.
  virtual void leading(std::vector<int32_t>& ids) const { (void)ids; }
  // Calls `check` with every id that apply() may add, for the loader to validate.
  virtual void each_id(const std::function<void(int64_t id)>& check) const { (void)check; }
};

// Makes the post-processor of a spec. Throws Error naming the path and the fault.
std::unique_ptr<const PostProcessor> make_post_processor(const ComponentSpec& spec);

// Makes a post-processor that puts fixed tokens before and after a text, with empty ranges.
std::unique_ptr<const PostProcessor> make_surrounding_processor(std::vector<int32_t> before,
                                                                std::vector<int32_t> after);

}  // namespace xrun
