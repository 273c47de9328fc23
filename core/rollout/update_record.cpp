// A micro-batch is measured after its objective has run, so its log-probs exist and no forward is
// added. Only tokens that the present weights sampled are compared with the sampler: any difference
// there comes from arithmetic (bf16 and batch shape), and in fp32 on the CPU there is none.

#include "core/rollout/update_record.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
#include "core/train/models/policy.h"

namespace xrun {

namespace {

// The range whose complement is rollout/ratio_outside.
constexpr double kRatioLow = 0.9, kRatioHigh = 1.1;
constexpr double kMaxDifference = 20;  // of log-probs; exp(20) is 5e8

std::string unit_text(Unit unit, int64_t count) {
  return fmt::format("the mean over {}",
                     counted(count, unit == Unit::kSequence ? "answer" : unit_name(unit)));
}

at::Tensor host_floats(const at::Tensor& values) {
  return values.detach().to(at::kCPU, at::kFloat).contiguous();
}

[[noreturn]] void refuse_stale_answers(int64_t oldest, bool reinforced) {
  throw Error(fmt::format(
      "these answers were sampled {} ago, and {}, so nothing corrects for the policy's change "
      "since then: make one update of a batch of rollouts, or {}",
      counted(oldest, "update"),
      reinforced ? "xrun.reinforce has no ratio to old_logprob"
                 : "the objective reads the advantage but not old_logprob",
      reinforced
          ? "use a loss with the ratio (policy:token_logprob(r) - r.old_logprob):exp() in its "
            "place; answers of a queue are corrected by r:truncated_ratio(cap)"
          : "use the ratio (policy:token_logprob(r) - r.old_logprob):exp()"));
}

}  // namespace

void RatioSums::add(double difference) {
  // One token of probability 0 would make every mean infinite.
  difference = std::clamp(difference, -kMaxDifference, kMaxDifference);
  // Equal log-probs, as in fp32 on the CPU, give distance 0 and ratio and error exactly 1.
  const double distance = std::fabs(difference), ratio = std::exp(difference);
  ++tokens;
  distance_sum += distance;
  distance_max = std::max(distance_max, distance);
  ratio_sum += ratio;
  ratio_max = std::max(ratio_max, ratio);
  // Ratios of 2 and 1/2 are errors of the same size.
  error_sum += std::exp(distance);
  outside += ratio < kRatioLow || ratio > kRatioHigh ? 1 : 0;
}

void RatioSums::add(const RatioSums& other) {
  tokens += other.tokens;
  distance_sum += other.distance_sum;
  distance_max = std::max(distance_max, other.distance_max);
  ratio_sum += other.ratio_sum;
  ratio_max = std::max(ratio_max, other.ratio_max);
  error_sum += other.error_sum;
  outside += other.outside;
}

void PathCounts::add(const PathCounts& other) {
  tokens += other.tokens;
  clipped += other.clipped;
  corrected += other.corrected;
  oldest = std::max(oldest, other.oldest);
  old.add(other.old);
  sampler.add(other.sampler);
}

Metrics ratio_metrics(const RatioSums& old, const RatioSums& sampler) {
  Metrics metrics;
  if (old.tokens > 0) {
    metrics.emplace_back("train/ratio_mean", old.ratio_sum / static_cast<double>(old.tokens));
    metrics.emplace_back("train/ratio_max", old.ratio_max);
  }
  if (sampler.tokens > 0) {
    const auto tokens = static_cast<double>(sampler.tokens);
    metrics.emplace_back("rollout/logprob_diff_mean", sampler.distance_sum / tokens);
    metrics.emplace_back("rollout/logprob_diff_max", sampler.distance_max);
    metrics.emplace_back("rollout/token_mult_prob_error", sampler.error_sum / tokens);
    metrics.emplace_back("rollout/ratio_outside", static_cast<double>(sampler.outside) / tokens);
  }
  return metrics;
}

Metrics path_metrics(const PathCounts& counts) {
  if (counts.tokens == 0) return {};
  const auto share = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(counts.tokens);
  };
  return {{"train/path_on_policy", share(counts.tokens - counts.clipped - counts.corrected)},
          {"train/path_clipped", share(counts.clipped)},
          {"train/path_corrected", share(counts.corrected)}};
}

std::string UpdateRecord::path() const {
  if (tokens == 0) return "";
  if (clipped + corrected == 0) return "on-policy";
  const double share = static_cast<double>(clipped + corrected) / static_cast<double>(tokens);
  return fmt::format("{} ({:.0f} % of the trained tokens, up to {} old)",
                     corrected > 0 ? "corrected by truncated importance sampling" : "clipped",
                     100 * share, counted(oldest, "update"));
}

Objective WatchedUpdate::watch(Objective objective) {
  return [this, objective = std::move(objective)](MicroBatch& micro) {
    ObjectiveResult result = objective(micro);
    measure(micro, result);
    return result;
  };
}

void WatchedUpdate::measure(MicroBatch& micro, const ObjectiveResult& result) {
  for (const auto& [unit, loss] : result.losses) add_units(units_, unit, loss.numel());
  MicroCounts measured;
  measured.micro = micro.index();
  const PackedBatch& pack = micro.pack();
  // Segments whose answers the present weights sampled.
  std::vector<uint8_t> fresh(static_cast<size_t>(pack.segment_count()), 0);
  int64_t oldest = 0, stale_tokens = 0;
  for (size_t s = 0; s < fresh.size(); ++s) {
    const Rollout& one = *batch_.rollouts()[static_cast<size_t>(pack.segment_id[s])];
    // Read before the update, which raises the count.
    const int64_t age = policy_.update_count() - one.version;
    fresh[s] = age == 0;
    oldest = std::max(oldest, age);
  }
  for (const int32_t s : pack.rows.segment) stale_tokens += fresh[static_cast<size_t>(s)] ? 0 : 1;
  // The code of an objective cannot be read, so the fields that it read decide its path:
  // old_logprob means a ratio, the advantage alone a plain policy gradient. xrun.reinforce never
  // has a ratio, so beside it the objective reads old_logprob for something else.
  const bool reinforced = micro.is_reinforced();
  const bool ratio = micro.is_corrected() || (micro.was_read("old_logprob") && !reinforced);
  const bool gradient = ratio || reinforced || micro.was_read("advantage");
  if (gradient && !ratio && stale_tokens > 0) refuse_stale_answers(oldest, reinforced);
  if (gradient) {
    measured.tokens = micro.row_count();
    // Fresh tokens are on-policy whichever loss is used: their ratio is 1.
    (micro.is_corrected() ? measured.corrected : measured.clipped) = stale_tokens;
    measured.oldest = oldest;
  }
  // Not later: close() frees the log-probs of the micro-batch.
  compare(micro, fresh, gradient, measured);
  measured_.push_back(measured);
}

void WatchedUpdate::add_units(UnitCounts& to, Unit unit, int64_t count) {
  const auto known =
      std::find_if(to.begin(), to.end(), [&](const auto& one) { return one.first == unit; });
  if (known == to.end()) {
    to.emplace_back(unit, count);
  } else {
    known->second += count;
  }
}

void WatchedUpdate::compare(MicroBatch& micro, const std::vector<uint8_t>& fresh, bool on_path,
                            MicroCounts& to) {
  const at::Tensor* trained = nullptr;
  for (const MicroBatch::Scored& one : micro.scored()) {
    // Log-probs of a part of the tokens would not line up with the loss rows.
    if (one.source == &policy_ && one.rows->everything) trained = &one.token_logprob;
  }
  if (trained == nullptr) return;
  const at::Tensor now = host_floats(*trained);
  const std::vector<int32_t>& segment = micro.pack().rows.segment;
  // Adds log p_now - log p_field of each loss row whose segment `counts`.
  const auto add = [&](const char* field, RatioSums& sums, const auto& counts) {
    bool by_row = false;
    const at::Tensor then = host_floats(micro.field(field, &by_row));
    if (!by_row) return;  // a recipe may assign old_logprob one value per answer
    const float* const a = now.const_data_ptr<float>();
    const float* const b = then.const_data_ptr<float>();
    for (size_t r = 0; r < segment.size(); ++r) {
      if (counts(static_cast<size_t>(segment[r]))) sums.add(static_cast<double>(a[r]) - b[r]);
    }
  };
  if (on_path) add("old_logprob", to.old, [](size_t) { return true; });
  if (std::any_of(fresh.begin(), fresh.end(), [](uint8_t one) { return one != 0; })) {
    add("sampler_logprob", to.sampler, [&](size_t s) { return fresh[s] != 0; });
  }
}

void WatchedUpdate::gather(Ranks& ranks, std::vector<MicroCounts>& measured, UnitCounts& units) {
  MessageWriter own;
  own.list(measured).int64(std::ssize(units));
  for (const auto& [unit, count] : units) own.int64(static_cast<int64_t>(unit)).int64(count);
  const std::vector<std::string> messages = ranks.gather("paths of rollouts", own.take());
  measured.clear();
  units.clear();
  for (const std::string& message : messages) {
    MessageReader in(message);
    const auto others = in.list<MicroCounts>();
    measured.insert(measured.end(), others.begin(), others.end());
    for (int64_t count = in.int64(); count > 0; --count) {
      const auto unit = static_cast<Unit>(in.int64());
      add_units(units, unit, in.int64());
    }
  }
  // In the order of the micro-batches, so that sums have the bits of one process.
  std::stable_sort(measured.begin(), measured.end(),
                   [](const MicroCounts& a, const MicroCounts& b) { return a.micro < b.micro; });
}

void WatchedUpdate::report(Metrics& metrics, UpdateRecord& record, Ranks* ranks) const {
  std::vector<MicroCounts> measured = measured_;
  UnitCounts units = units_;
  if (ranks != nullptr) gather(*ranks, measured, units);
  PathCounts own;
  for (const MicroCounts& one : measured) own.add(one);
  for (auto& metric : path_metrics(own)) metrics.push_back(std::move(metric));
  for (auto& metric : ratio_metrics(own.old, own.sampler)) metrics.push_back(std::move(metric));
  // The loss is described once: later updates of a body have the same one.
  if (record.updates++ == 0) {
    for (const auto& [unit, count] : units) {
      add_item(record.loss, unit_text(unit, count), " + ");
    }
  }
  // The metrics are of this update alone; the record adds up all updates of the body.
  record.add(own);
}

}  // namespace xrun
