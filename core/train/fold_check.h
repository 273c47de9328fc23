#pragma once
// The check of a folded pack against its separate sequences, before a run trains.

#include <functional>
#include <string>

namespace xrun {

class HeldPrefix;
class Model;
struct ComputedPack;
struct PackedBatch;

// Runs both forms of a pack through the model, without gradient, and returns the largest difference
// of a hidden state, relative to the largest element of its token and at least to 1. In fp32 on a
// CPU it is 0 (docs/numerics.md).
//   row_name  of a row id, for the message
//   prefix    with which the folded form begins, computed apart; null: none
// Throws Error that names the row and the token of a difference above 1e-4 in fp32, 0.1 otherwise.
double check_fold(Model& model, const PackedBatch& pack, const ComputedPack& folded,
                  const std::function<std::string(int64_t row)>& row_name,
                  HeldPrefix* prefix = nullptr);

}  // namespace xrun
