// loss += moe_aux * mean over layers of E sum_e f_e P_e (Fedus et al. 2021, eq. 4). f counts the
// whole step, so that packing changes nothing, and is constant; the gradient flows through P.

#include "core/train/expert_balance.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "core/dist/agreement.h"
#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
#include "core/model/model.h"
#include "core/train/adamw.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/models/policy.h"
#include "core/train/models/scorer.h"

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

std::string ExpertBalance::write(const Records& records) {
  MessageWriter out;
  for (const auto& [number, record] : records) {
    out.int64(number).int64(record.tokens).int64(record.top_k).int64(std::ssize(record.layers));
    for (const RouterRecord::Layer& layer : record.layers) {
      out.tensor(layer.count).tensor(layer.prob_sum);
    }
  }
  return out.take();
}

// Sorted by number: the order in which one process adds them.
ExpertBalance::Records ExpertBalance::read(const std::vector<std::string>& messages) {
  Records records;
  for (const std::string& message : messages) {
    MessageReader in(message);
    while (!in.done()) {
      auto& [number, record] = records.emplace_back();
      number = in.int64();
      record.tokens = in.int64();
      record.top_k = in.int64();
      for (int64_t layers = in.int64(); layers > 0; --layers) {
        const at::Tensor count = in.tensor();
        record.layers.push_back({count, in.tensor()});
      }
    }
  }
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return records;
}

RouterTotals ExpertBalance::totals_of(const Records& records) {
  RouterTotals totals;
  for (const auto& [number, record] : records) totals.add(record);
  return totals;
}

void ExpertBalance::count(const std::vector<StepTerm>& terms, const std::function<void()>& poll,
                          Ranks* ranks) {
  int64_t micros = 0;
  for (const StepTerm& term : terms) micros += std::ssize(term.batch->micros());
  // One micro-batch is the whole step: its own forward has the counts.
  if (model_ == nullptr || weight_ == 0 || micros < 2) return;
  const at::NoGradGuard no_grad;
  Records records;
  const auto count_own = [&] {
    int64_t number = 0;
    for (const StepTerm& term : terms) {
      for (const auto& micro : term.batch->micros()) {
        const int64_t own = number++;
        // Dealt as in the step, so that every micro-batch is counted once.
        if (ranks != nullptr && own % ranks->size() != ranks->rank()) continue;
        if (poll) poll();
        auto& [at, record] = records.emplace_back();
        at = own;
        // A whole forward only for counts: f must cover the step before the first backward.
        // perf/moe_counted shows the cost.
        const ComputedPack& pack = micro->computed(*model_);
        model_->forward(pack.input, {.router = &record,
                                     .multiplicity = pack.multiplicity,
                                     .replay = micro->replayed(*model_)});
      }
    }
    return ranks == nullptr ? std::string() : write(records);
  };
  const std::vector<std::string> messages = gather_results(ranks, "expert counts", count_own);
  if (ranks != nullptr) records = read(messages);
  step_ = totals_of(records);
  counted_ = micros;
}

at::Tensor ExpertBalance::share(const MicroBatch& micro, int64_t number) {
  const RouterRecord* const record = model_ == nullptr ? nullptr : micro.router(*model_);
  if (record == nullptr) return {};
  auto& [at, seen] = seen_.emplace_back(number, *record);
  // The metrics need the values alone; a graph would outlive its micro-batch.
  for (RouterRecord::Layer& layer : seen.layers) layer.prob_sum = layer.prob_sum.detach();
  if (weight_ == 0) return {};
  // A step of one micro-batch is not counted beforehand: its own record is the step's.
  return balance_share(*record, counted_ > 0 ? step_ : totals_of(seen_)).mul(weight_);
}

std::string ExpertBalance::message() const { return write(seen_); }

void ExpertBalance::take(const std::vector<std::string>& messages) { seen_ = read(messages); }

void ExpertBalance::report(Metrics& metrics) const {
  const RouterTotals seen = totals_of(seen_);
  if (seen.tokens == 0) return;
  const ExpertLoad load = expert_load(seen);
  metrics.emplace_back("train/moe/aux_loss", balance(seen));
  metrics.emplace_back("train/moe/load_max", load.largest);
  metrics.emplace_back("train/moe/load_min", load.smallest);
  metrics.emplace_back("train/moe/idle", load.idle);
  if (counted_ > 0) metrics.emplace_back("perf/moe_counted", static_cast<double>(counted_));
}

}  // namespace xrun
