// loss += moe_aux * mean over layers of E sum_e f_e P_e (Fedus et al. 2021, eq. 4). f counts the
// whole step, so that packing changes nothing, and is constant; the gradient flows through P.

#include "core/train/expert_balance.h"

#include <ATen/core/grad_mode.h>

#include "core/model/model.h"
#include "core/train/adamw.h"
#include "core/train/batch.h"
#include "core/train/computed_pack.h"
#include "core/train/policy.h"
#include "core/train/scorer.h"

namespace xrun {

namespace {

// The policy that is trained, itself or under a scorer; nullptr if there is none.
Policy* policy_of(Trainable& trainable) {
  if (auto* const scorer = dynamic_cast<Scorer*>(&trainable)) return scorer->policy().get();
  return dynamic_cast<Policy*>(&trainable);
}

}  // namespace

ExpertBalance::ExpertBalance(const AdamW& adamw) {
  for (const auto& trainable : adamw.trainables()) {
    Policy* const policy = policy_of(*trainable);
    // One policy: two mixtures in one step would need two sums, and no recipe trains two.
    if (policy == nullptr || policy->model().config().moe.experts == 0) continue;
    model_ = &policy->model();
    weight_ = policy->options().moe_aux;
    return;
  }
}

void ExpertBalance::count(const std::vector<StepTerm>& terms, const std::function<void()>& poll) {
  size_t micros = 0;
  for (const StepTerm& term : terms) micros += term.batch->micros().size();
  // One micro-batch is the whole step: its own forward has the counts.
  if (model_ == nullptr || weight_ == 0 || micros < 2) return;
  const at::NoGradGuard no_grad;
  for (const StepTerm& term : terms) {
    for (const auto& micro : term.batch->micros()) {
      if (poll) poll();
      RouterRecord record;
      // A whole forward only for counts: f must cover the step before the first backward.
      // perf/moe_counted shows the cost.
      const ComputedPack& pack = micro->computed(*model_);
      model_->forward(pack.input, {.router = &record,
                                   .multiplicity = pack.multiplicity,
                                   .replay = micro->replayed(*model_)});
      step_.add(record);
      ++counted_;
    }
  }
}

at::Tensor ExpertBalance::share(const MicroBatch& micro) {
  const RouterRecord* const record = model_ == nullptr ? nullptr : micro.router(*model_);
  if (record == nullptr) return {};
  seen_.add(*record);
  if (weight_ == 0) return {};
  // seen_ equals the step if there is one micro-batch, whose own counts are already in it.
  return balance_share(*record, counted_ > 0 ? step_ : seen_).mul(weight_);
}

void ExpertBalance::report(Metrics& metrics) const {
  if (seen_.tokens == 0) return;
  const ExpertLoad load = expert_load(seen_);
  metrics.emplace_back("train/moe/aux_loss", balance(seen_));
  metrics.emplace_back("train/moe/load_max", load.largest);
  metrics.emplace_back("train/moe/load_min", load.smallest);
  metrics.emplace_back("train/moe/idle", load.idle);
  if (counted_ > 0) metrics.emplace_back("perf/moe_counted", static_cast<double>(counted_));
}

}  // namespace xrun
