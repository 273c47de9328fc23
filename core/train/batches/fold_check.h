#pragma once
// Checks a folded pack against its separate sequences, before a run trains.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace xrun {

class HeldPrefix;
class Model;
struct ComputedPack;
struct FoldedPack;
struct PackedBatch;

using RowText = std::function<std::string(int64_t row)>;  // of a row id, for the message

// Runs both forms of a pack through the model, without gradient, and returns the largest difference
// of a hidden state, relative to the largest element of its token and at least to 1. In fp32 on a
// CPU it is 0 (docs/numerics.md). The sequences run at most as many tokens at a time as the folded
// pack computes. If together they have more than twice as many tokens, only some of them run: at
// least two, evenly spaced.
//   prefix  that the folded form begins with, computed separately; null: none
// Throws Error that names the row and the token of a difference above 1e-4 in fp32, 0.1 otherwise.
double check_fold(Model& model, const PackedBatch& pack, const ComputedPack& folded,
                  const RowText& row_name, HeldPrefix* prefix = nullptr);

struct HiddenStates {
  at::Tensor folded;  // [F, D] of the tokens of a folded pack
  at::Tensor whole;   // [n, D] of the tokens of whole segments of the pack
  size_t first_segment = 0;
};

// Compares hidden states as check_fold does. A NaN is a difference.
double check_hidden(const PackedBatch& pack, const FoldedPack& fold, const HiddenStates& hidden,
                    at::ScalarType compute_type, const RowText& row_name);

}  // namespace xrun
