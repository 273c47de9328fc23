#pragma once
// Fixed tokens before and after a text, which post-processors add.

#include <functional>
#include <utility>
#include <vector>

#include "core/text/tokenizer/post_processor.h"

namespace xrun {

struct SurroundingTokens {
  std::vector<int32_t> before;
  std::vector<int32_t> after;

  // Puts them around the tokens of the text, with empty ranges.
  void add_to(Encoding& encoding) const;
  // Calls `check` with each of them.
  void each_id(const std::function<void(int64_t id)>& check) const;
};

// A post-processor that adds them where it is asked for tokens.
class SurroundingProcessor : public PostProcessor {
 public:
  explicit SurroundingProcessor(SurroundingTokens tokens) : tokens_(std::move(tokens)) {}
  void apply(Encoding& encoding, const PostContext& context) const override {
    if (context.add_tokens) tokens_.add_to(encoding);
  }
  void leading(std::vector<int32_t>& ids) const override {
    ids.insert(ids.end(), tokens_.before.begin(), tokens_.before.end());
  }
  void each_id(const std::function<void(int64_t id)>& check) const override {
    tokens_.each_id(check);
  }

 private:
  SurroundingTokens tokens_;
};

// Reads the "cls" and "sep" of a BERT-like post-processor, ["[CLS]", 101]. Throws Error that names
// the place if one is no name with an id.
SurroundingTokens read_cls_and_sep(const ComponentSpec& spec);

}  // namespace xrun
