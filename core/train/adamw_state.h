#pragma once
// The state of AdamW in flat buffers: moments and counts of the weights, or of a rank's ranges.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/dist/flat_index.h"
#include "core/train/models/gradient_exchange.h"
#include "core/train/models/saveable.h"
#include "core/train/weight_gather.h"
#include "kernels/cpu/adamw.h"

namespace xrun {

// In one process the gradients are those of the weights; with ranks they are the sums of the
// exchange. Not thread-safe. Functions marked "collective" are called by all ranks.
class AdamWState {
 public:
  // Loads the weights. Throws Error that names one that is not an fp32 leaf.
  AdamWState(const std::vector<std::shared_ptr<Trainable>>& trainables, const DistOptions& dist);
  ~AdamWState();
  AdamWState(const AdamWState&) = delete;
  AdamWState& operator=(const AdamWState&) = delete;

  GradientExchange* exchange() { return exchange_.get(); }  // null in one process
  bool has_moments() const { return !exp_avg_.empty(); }
  void make_moments();  // zeros; does nothing if they are there

  // Returns the sum of the squares of the summed gradients, for ranks only. Afterwards every rank
  // knows which weights have a gradient. Collective.
  double squares();

  // Returns the factors of a weight, given its count of updates, this one included, and its number
  // of dimensions.
  using Factors = std::function<kernels::AdamWFactors(int64_t count, int64_t dims)>;
  // Updates the weights that have a gradient, on every rank. Collective.
  void update(const Factors& factors);
  // True from the first changed weight of an update to end_update(); stays true after an error
  // between.
  bool updating() const { return updating_; }
  void end_update() { updating_ = false; }

  // Copies of the summed gradients, in the order of the weights, for ranks only. Collective.
  std::vector<NamedTensor> gradients();
  void clear_gradients();

  // State in the form of the moments: one flat buffer per bucket, for the ranges that this rank
  // holds.
  using Buffers = std::vector<at::Tensor>;
  Buffers zeros() const;
  // Calls f(weight, state) for each range of a weight held here, both flat, in their own storage.
  using EachRange = std::function<void(const at::Tensor& weight, const at::Tensor& state)>;
  void each(const Buffers& state, const EachRange& f) const;
  // Sends this rank's ranges of the weights to the others after a change. Those that a model awaits
  // arrive while its next forward runs. Does nothing in one process, at level 0 and for weights in
  // ranges. Collective.
  void share_weights();
  // Drops all collectives that are under way (Saveable::abandon_shared).
  void abandon_shared();
  // Calls share_weights() and waits for the ranges of the other ranks. Collective.
  void share_again();

  // Saved state: buffers by the prefix of their tensors' names.
  using NamedBuffers = std::vector<std::pair<std::string, const Buffers*>>;
  std::vector<NamedTensor> tensors(const NamedBuffers& of) const;  // in one process or at level 0
  std::vector<TensorRange> ranges(const NamedBuffers& of) const;   // with ranks, from level 1 on
  void restore(const TensorSource& saved, const NamedBuffers& into);
  NamedBuffers moments() const;  // no buffers before the first update
  // The weights, named as in the checkpoint, and the number of updates of each.
  const std::vector<FlatTensor>& weights() const { return index_.tensors(); }
  std::vector<int64_t>& counts() { return counts_; }
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  // Elements of one weight that this rank holds moments for.
  struct HeldRange {
    int64_t tensor = 0, bucket = 0;
    int64_t begin = 0, size = 0;  // of the weight
    int64_t at = 0;               // where its first moment begins in the bucket's buffer
  };
  void find_held_pieces();                          // fills pieces_
  at::Tensor gradient_of(const HeldRange& held);    // flat
  std::vector<double> own_sums_of_squares() const;  // by slice; -1: no gradient
  at::Tensor flat_weight(int64_t tensor, int64_t begin, int64_t size) const;
  void gather_gradients();  // level 0: the sums of all ranks
  void gather_weights();    // after an update of a rank's own ranges
  void gather_bucket(int64_t bucket);
  void take_weights(int64_t bucket, const at::Tensor& buffer);
  void copy_weights(int64_t bucket, const at::Tensor& buffer, int64_t rank, bool into_buffer);
  bool has_gradient(int64_t tensor) const;

  DistOptions dist_;
  int64_t rank_ = 0, size_ = 1;
  FlatIndex index_;
  RankRanges owned_;    // ranges in which each rank sums gradients
  RankRanges held_;     // ranges whose moments each rank keeps; at level 0 one range of everything
  int64_t holder_ = 0;  // this rank among those of held_
  struct WeightOwner {
    Trainable* trainable;
    size_t parameter;  // its number among the trainable's
    bool awaits;       // it reads the weight only after IncomingWeights::await
  };
  std::vector<at::Tensor> weights_;
  std::vector<WeightOwner> owners_;  // [tensors]
  std::vector<HeldRange> pieces_;
  std::unique_ptr<GradientExchange> exchange_;
  std::shared_ptr<IncomingBuckets> incoming_;  // null in one process and at level 0
  std::vector<at::Tensor> whole_;              // [buckets] gathered gradients of level 0
  Buffers exp_avg_, exp_avg_sq_;               // [buckets] fp32
  std::vector<int64_t> counts_;                // [tensors]
  std::vector<bool> has_gradient_;             // [tensors], on any rank; set by squares()
  bool updating_ = false;
};

}  // namespace xrun
