#pragma once
// The gradients of one step, summed over its work items in the batch's order, whichever rank
// computes an item.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <vector>

namespace xrun {

class AdamW;
class Ranks;

// A work item is what one backward pass or several leave in the parameters' gradients. Items are
// dealt in rounds: in round j rank r computes item j n + r. Every element is added in the order of
// the items, so its sum has the same bits on any number of ranks. Not thread-safe.
class RoundGradients {
 public:
  // `ranks` may be null. The optimizer outlives this object and its gradients are clear.
  //   several_passes  an item has several backward passes: one process too sums it by itself first
  RoundGradients(AdamW& adamw, Ranks* ranks, bool several_passes);

  // Ends a round: takes the gradients of this rank's item out of the parameters. `failure` is what
  // computing the item threw, null if nothing did: then every rank throws (agreement.h).
  void end_round(const std::exception_ptr& failure);
  // Sets every parameter's gradient to its sum; one that no item gave a gradient has none.
  void finish();

 private:
  struct Piece {  // the elements of a parameter in the range of one rank
    size_t parameter;
    int64_t begin, end;  // within the parameter
  };
  using Presence = std::vector<uint8_t>;  // by parameter: 1 if an item gave it a gradient

  void keep_item();
  void exchange_item(const std::vector<Presence>& present);
  int64_t elements(size_t owner, const Presence& present) const;

  AdamW& adamw_;
  Ranks* ranks_;
  bool by_item_;
  std::vector<at::Tensor> masters_;
  std::vector<std::vector<Piece>> ranges_;  // by rank: what it adds up
  Presence present_;                        // in any item so far
  // One process: by parameter; ranks: by piece of the own range. Undefined before the first.
  std::vector<at::Tensor> sums_;
  int64_t round_ = 0;
};

}  // namespace xrun
