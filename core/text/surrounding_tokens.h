#pragma once
// Fixed tokens before and after a text, which post-processors add.

#include "core/text/post_processor.h"

namespace xrun {

struct SurroundingTokens {
  std::vector<int32_t> before;
  std::vector<int32_t> after;

  // Puts them around the tokens of the text, with empty ranges.
  void add_to(Encoding& encoding) const;
  // Calls `check` with each of them.
  void each_id(const std::function<void(int64_t id)>& check) const;
};

// Reads the "cls" and "sep" of a BERT-like post-processor, ["[CLS]", 101]. Throws Error that names
// the place if one is no name with an id.
SurroundingTokens read_cls_and_sep(const ComponentSpec& spec);

}  // namespace xrun
