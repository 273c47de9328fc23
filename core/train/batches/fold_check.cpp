// difference[t] = max_d |folded[flat_of[t], d] - whole[t, d]| / max(1, max_d |whole[t, d]|). Hidden
// states rather than log-probs, so that an error in a token that is not trained shows too.

#include "core/train/batches/fold_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/data/packs/packed_batch.h"
#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/prefix/folded_pack.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/batches/held_prefix.h"
#include "core/train/batches/unit.h"

namespace xrun {

namespace {

// In fp32 far above the effect of another order of sums and far below that of a wrong token. Below
// fp32 the rounding of thirty layers reaches a few percent.
constexpr double kMostFloat = 1e-4, kMostNarrow = 0.1;

at::Tensor folded_hidden(Model& model, const PackInput& input, HeldPrefix* prefix) {
  if (prefix == nullptr) return model.forward(input);
  const HeldPrefix::PrefixLeaves held = prefix->leaves(model);
  return at::cat({held.hidden, model.forward(input, {.held = held.keys})});
}

}  // namespace

double check_hidden(const PackedBatch& pack, const FoldedPack& fold, const HiddenStates& hidden,
                    at::ScalarType compute_type, const RowText& row_name) {
  const at::Tensor whole = hidden.whole.to(at::kFloat);
  const at::Tensor flat_of = on_device(int64_tensor(fold.flat_of), whole.device());
  const at::Tensor shared = hidden.folded.to(at::kFloat).index_select(0, flat_of);
  const at::Tensor difference =
      shared.sub(whole).abs().amax(1).div(whole.abs().amax(1).clamp_min(1)).cpu();
  const double largest = difference.max().item<double>();
  const double most = compute_type == at::kFloat ? kMostFloat : kMostNarrow;
  if (largest <= most) return largest;
  const auto token = static_cast<int32_t>(difference.argmax().item<int64_t>());
  const auto& cu = pack.cu_seqlens;
  const auto s =
      static_cast<size_t>(std::upper_bound(cu.begin(), cu.end(), token) - cu.begin()) - 1;
  throw Error(
      fmt::format("{}: folding changes the hidden state of token {} by {:.2g}, wanted at most "
                  "{:.0e}: this is a "
                  "defect of xrun, please report it; --set batch.fold=false trains without folding",
                  row_name(pack.row_id[s]), token - cu[s], largest, most));
}

double check_fold(Model& model, const PackedBatch& pack, const ComputedPack& folded,
                  const RowText& row_name, HeldPrefix* prefix) {
  const at::NoGradGuard no_grad;
  const at::Tensor whole = model.forward(computed_pack(pack, {}, {}, model.device()).input);
  return check_hidden(pack, *folded.fold, {folded_hidden(model, folded.input, prefix), whole},
                      model.compute_type(), row_name);
}

}  // namespace xrun
