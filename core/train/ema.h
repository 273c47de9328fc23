#pragma once
// The exponential moving average of the weights that an optimizer trains (Polyak and Juditsky
// 1992).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/train/models/saveable.h"

namespace xrun {

class AdamW;
class AdamWState;

// After each update, average = decay * average + (1 - decay) * weight, in fp32. It starts at the
// weights before the first update. As with AdamW's moments, a rank holds the average of its own
// ranges of the weights: 1/n of it from level 1 on. The same bits on any number of ranks and
// threads. Not thread-safe.
class Ema : public Saveable, public std::enable_shared_from_this<Ema> {
 public:
  // Follows the updates of `adamw` while it lives. Throws UsageError unless 0 <= decay < 1.
  static std::shared_ptr<Ema> of(std::shared_ptr<AdamW> adamw, double decay);

  double decay() const { return decay_; }
  int64_t update_count() const { return updates_; }  // those that it has followed

  // Exchanges the weights and the average: models then compute and export the average, until the
  // next call puts the weights back. Meanwhile AdamW::update and state() throw Error. Does nothing
  // before the first update, when both are equal. Collective.
  void swap();
  bool in_use() const { return in_use_; }
  // Puts this rank's ranges of the weights back if the average is in use; those of others stay.
  void leave();

  // Called by AdamW around its update.
  void before_update(const AdamWState& weights);
  void after_update(const AdamWState& weights);

  // The average as ema.<name>; empty before the first update.
  std::vector<NamedTensor> tensors() const override;
  std::vector<TensorRange> ranges() const override;
  Json state() const override;
  void restore(const TensorSource& tensor, const Json& state) override;

 private:
  Ema(std::shared_ptr<AdamW> adamw, double decay) : adamw_(std::move(adamw)), decay_(decay) {}

  void swap_ranges(AdamWState& weights);

  std::shared_ptr<AdamW> adamw_;
  double decay_;
  std::vector<at::Tensor> average_;  // [buckets]; empty before the first update
  int64_t updates_ = 0;
  bool in_use_ = false;
};

}  // namespace xrun
