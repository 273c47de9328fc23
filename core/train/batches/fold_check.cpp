// difference[t] = max_d |folded[flat_of[t], d] - whole[t, d]| / max(1, max_d |whole[t, d]|).
// Compares hidden states rather than log-probs, so that an error in a token that is not trained
// shows too.

#include "core/train/batches/fold_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <utility>
#include <vector>

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

// 1e-4 is far above the rounding of another summation order in fp32 and far below the effect of a
// wrong token. Below fp32, rounding over thirty layers reaches a few percent.
constexpr double kMostFloat = 1e-4, kMostNarrow = 0.1;

at::Tensor folded_hidden(Model& model, const PackInput& input, HeldPrefix* prefix) {
  if (prefix == nullptr) return model.forward(input);
  const HeldPrefix::PrefixLeaves held = prefix->leaves(model);
  return at::cat({held.hidden, model.forward(input, {.held = held.keys})});
}

// Returns ranges of segments, [begin, end), of at most as many tokens as the folded pack computes,
// or of one segment. A pack that needs more than two ranges is sampled: evenly spaced segments,
// including the first and last, so that the check does not cost what folding saves.
std::vector<std::pair<size_t, size_t>> compared_ranges(const PackedBatch& pack, int64_t computed) {
  const auto& cu = pack.cu_seqlens;
  const size_t segments = cu.size() - 1;
  std::vector<std::pair<size_t, size_t>> ranges;
  if (cu.back() > 2 * computed) {
    const auto n = static_cast<size_t>(
        std::max<int64_t>(2, static_cast<int64_t>(segments) * 2 * computed / cu.back()));
    for (size_t i = 0; i < n; ++i) {
      const size_t segment = i * (segments - 1) / (n - 1);
      ranges.emplace_back(segment, segment + 1);
    }
    return ranges;
  }
  for (size_t begin = 0, end = 0; begin < segments; begin = end) {
    for (end = begin + 1; end < segments && cu[end + 1] - cu[begin] <= computed;) ++end;
    ranges.emplace_back(begin, end);
  }
  return ranges;
}

PackInput segments_of(const PackInput& input, size_t begin, size_t end) {
  const int32_t first = input.cu_seqlens[begin], size = input.cu_seqlens[end] - first;
  PackInput part;
  part.tokens = input.tokens.narrow(0, first, size);
  part.position_ids = input.position_ids.narrow(0, first, size);
  for (size_t s = begin; s <= end; ++s) part.cu_seqlens.push_back(input.cu_seqlens[s] - first);
  if (!input.rope_length.empty()) {
    part.rope_length = {input.rope_length.begin() + static_cast<std::ptrdiff_t>(begin),
                        input.rope_length.begin() + static_cast<std::ptrdiff_t>(end)};
  }
  return part;
}

}  // namespace

double check_hidden(const PackedBatch& pack, const FoldedPack& fold, const HiddenStates& hidden,
                    at::ScalarType compute_type, const RowText& row_name) {
  const int32_t first = pack.cu_seqlens[hidden.first_segment];
  const at::Tensor whole = hidden.whole.to(at::kFloat);
  const auto slots = fold.flat_of.begin() + first;
  const std::vector<int32_t> flat_slots(slots, slots + hidden.whole.size(0));
  const at::Tensor flat_of = on_device(int64_tensor(flat_slots), whole.device());
  const at::Tensor shared = hidden.folded.to(at::kFloat).index_select(0, flat_of);
  const at::Tensor difference =
      shared.sub(whole).abs().amax(1).div(whole.abs().amax(1).clamp_min(1)).cpu();
  const double largest = difference.max().item<double>();
  const double most = compute_type == at::kFloat ? kMostFloat : kMostNarrow;
  if (largest <= most) return largest;
  const auto token = first + static_cast<int32_t>(difference.argmax().item<int64_t>());
  const auto& cu = pack.cu_seqlens;
  const auto s =
      static_cast<size_t>(std::upper_bound(cu.begin(), cu.end(), token) - cu.begin()) - 1;
  throw Error(fmt::format(
      "{}: folding changes the hidden state of token {} by {:.2g}, wanted at most {:.0e}: "
      "this is a defect of xrun, please report it; --set batch.fold=false trains without folding",
      row_name(pack.row_id[s]), token - cu[s], largest, most));
}

double check_fold(Model& model, const PackedBatch& pack, const ComputedPack& folded,
                  const RowText& row_name, HeldPrefix* prefix) {
  const at::NoGradGuard no_grad;
  const PackInput whole = computed_pack(pack, {}, {}, model.device()).input;
  HiddenStates hidden{folded_hidden(model, folded.input, prefix), {}, 0};
  double largest = 0;
  for (const auto& [begin, end] : compared_ranges(pack, folded.fold->token_count())) {
    hidden.first_segment = begin;
    hidden.whole = model.forward(segments_of(whole, begin, end));
    largest =
        std::max(largest, check_hidden(pack, *folded.fold, hidden, model.compute_type(), row_name));
  }
  return largest;
}

}  // namespace xrun
