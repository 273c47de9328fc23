#pragma once
// A model's answers for one view: outputs of the fused head, logits, and scores of a value head.

#include <ATen/core/Tensor.h>

#include <functional>

#include "core/model/ops/linear_head.h"

namespace xrun {

class Model;
class View;

// Returns the outputs of linear_head.h for each trained token of a view, [R] and [R, k].
//   target   [R] or [R, M] int64 in place of the trained tokens; undefined: the trained tokens
//   head_mb  the micro-batch's budget: a product with gradient may keep what earlier calls left of
//            it, and ignores options.head_mb
HeadResult view_head(Model& model, const View& view, HeadOptions options, const at::Tensor& target,
                     int64_t head_mb);

// Returns the logits of each trained token of a view, [R, V] float32, from a separate forward.
at::Tensor view_logits(Model& model, const View& view);

// Returns weight . hidden state of the last token of each segment, [n] float32. `weight` gives
// [1, D] fp32 and is called after the forward.
at::Tensor view_score(Model& model, const View& view,
                      const std::function<const at::Tensor&()>& weight);

}  // namespace xrun
