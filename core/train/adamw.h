#pragma once
// AdamW with decoupled weight decay (Loshchilov & Hutter 2019), clipping and a schedule.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/train/models/gradient_exchange.h"
#include "core/train/models/saveable.h"

namespace xrun {

class AdamWState;
class Ema;

enum class Schedule { kConstant, kLinear, kCosine };

// Returns the schedule of this name. Throws UsageError that lists the names if there is none.
Schedule schedule_of(std::string_view name);

// Returns the number of warm-up steps: `warmup` itself if it is at least 1, otherwise that share of
// the steps, rounded up (as warmup_ratio of the Hugging Face trainer).
int64_t warmup_steps(double warmup, int64_t total_steps);

// Returns the factor of update k = 0, 1, ..., total_steps - 1, as in transformers'
// get_{constant,linear,cosine}_schedule_with_warmup: k / warm-up steps during the warm-up (its
// first update has factor 0), then 1 if constant, otherwise falling to 0 at total_steps.
double schedule_factor(Schedule schedule, int64_t k, int64_t warmup, int64_t total_steps);

struct AdamWOptions {
  double lr = 0.0;  // required, > 0
  Schedule schedule = Schedule::kLinear;
  double warmup = 0.0;  // steps; below 1 a share of the steps
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;  // never applied to 1-D weights
  double clip = 1.0;          // largest global gradient norm; 0 is off
};

// Two fp32 moments and a count for each trained weight. The arithmetic is torch.optim.AdamW's, the
// clipping torch.nn.utils.clip_grad_norm_'s. As there, a weight without a gradient is skipped: no
// decay, no moment, no count. Not thread-safe.
//
// With ranks, all of them make the same calls in the same order; those marked "collective" wait for
// the others. A step calls begin_exchange, backward and end_exchange for the items that the ranks
// compute at a time, until none is left, then grad_norm and update. A rank holds moments for its
// own ranges of the weights (core/dist/flat_index.h).
class AdamW : public Saveable {
 public:
  // Loads nothing. Throws UsageError that names an option out of range.
  AdamW(std::vector<std::shared_ptr<Trainable>> trainables, AdamWOptions options,
        DistOptions dist = {});
  ~AdamW() override;

  const AdamWOptions& options() const { return options_; }
  const DistOptions& dist() const { return dist_; }
  const std::vector<std::shared_ptr<Trainable>>& trainables() const { return trainables_; }
  int64_t update_count() const { return update_count_; }

  // Returns the learning rate of update `step` of `total_steps`.
  double lr(int64_t step, int64_t total_steps) const;
  // Returns a notice of how far the learning rate rises if the warm-up is as long as the run or
  // longer; "" if it is shorter.
  std::string short_run_text(int64_t total_steps) const;

  // Enclose the backwards of the items that the ranks compute at a time. In one process they are
  // optional: they sum the gradient of an item of several backwards before it is added to that of
  // earlier items. end_exchange is collective.
  void begin_exchange(const ExchangedItems& items);
  void end_exchange();

  // Returns the global 2-norm of the gradients, a 0-dim float64 tensor, without a host sync in one
  // process. The same bits on any number of ranks and threads. Collective.
  at::Tensor grad_norm();

  // Clips by `norm` (the value of grad_norm), updates every weight, counts, frees the gradients.
  // With ranks grad_norm must have been called since the last exchange. Collective.
  void update(double lr, double norm);

  // Adds an average that follows every update for as long as it is alive.
  void add_average(const std::shared_ptr<Ema>& average) { averages_.push_back(average); }
  std::vector<std::shared_ptr<Ema>> averages() const;  // those that are alive
  int64_t average_count() const { return std::ssize(averages()); }

  // Frees every gradient.
  void clear_gradients();
  // Returns the gradient of every weight that has one, whole, in a fixed order. With ranks they are
  // copies of the sums. Collective.
  std::vector<NamedTensor> gradients();

  // The moments exp_avg.<name> and exp_avg_sq.<name>: tensors() in one process and at level 0,
  // ranges() otherwise. Empty before the first update.
  std::vector<NamedTensor> tensors() const override;
  std::vector<TensorRange> ranges() const override;
  Json state() const override;
  void restore(const TensorSource& tensor, const Json& state) override;
  // Also puts the weights back where an average is in use.
  void abandon_shared() override;
  bool average_in_use() const override;
  void share_again() override;

 private:
  friend class Ema;  // its averages are in the ranges of the moments

  AdamWState& state_of_weights();  // loads the weights at the first call

  std::vector<std::shared_ptr<Trainable>> trainables_;
  AdamWOptions options_;
  DistOptions dist_;
  std::unique_ptr<AdamWState> weights_;  // null before the first update or exchange
  // Weights, each with its gradient from the items before the open one.
  std::vector<std::pair<at::Tensor, at::Tensor>> earlier_;
  std::vector<std::weak_ptr<Ema>> averages_;
  int64_t update_count_ = 0;
};

}  // namespace xrun
