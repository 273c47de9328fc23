// A group is identified by the prompt object that its rollouts share, since each call of
// policy:sample in a body counts its prompts from 0.

#include "core/rollout/rollout_log.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/compression.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/rollout/pass_rate.h"

namespace xrun {

namespace {

constexpr std::string_view kFileEnd = ".jsonl.zst";

// zstd leaves 10 to 14 bytes per token (an id, a log-prob of nine digits, which hardly compress),
// everything else of the line included: measured on runs of 8 to 160 tokens per answer.
constexpr int64_t kTokenBytes = 11, kAnswerBytes = 40;

// Returns the middle value, or the mean of the two in the middle.
double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Sums run in the order of the rollouts. Groups are keyed by address, but no result depends on
// their order.
class RolloutSums {
 public:
  void add(const std::shared_ptr<Rollout>& rollout) {
    const Rollout& one = *rollout;
    ++count_;
    // Sampled tokens alone: the messages of an environment have no log-probs.
    lengths_.push_back(static_cast<double>(one.logprobs.size()));
    stopped_ += one.stopped() ? 1 : 0;
    turns_ += static_cast<double>(one.turns.size());
    aborted_ += one.aborted() ? 1 : 0;
    // Not scored, or its reward failed and is masked.
    if (!one.reward) return;
    rewards_.push_back(*one.reward);
    groups_[one.prompt_ids.get()].push_back(rollout);
    for (const auto& [name, value] : one.parts) {
      auto& [sum, count] = parts_[name];
      sum += value;
      ++count;
    }
  }

  void report(const std::optional<GroupCounts>& counts, Metrics& metrics) const {
    if (!rewards_.empty()) {
      const double mean = mean_of(rewards_);
      metrics.emplace_back("rollout/reward", mean);
      metrics.emplace_back("rollout/reward_std", deviation_of(rewards_, mean));
      for (const auto& [name, part] : parts_) {
        metrics.emplace_back("rollout/reward/" + name,
                             part.first / static_cast<double>(part.second));
      }
    }
    metrics.emplace_back("rollout/length", mean_of(lengths_));
    metrics.emplace_back("rollout/length_p50", median(lengths_));
    metrics.emplace_back("rollout/length_max", *std::max_element(lengths_.begin(), lengths_.end()));
    metrics.emplace_back("rollout/stopped", stopped_ / count_);
    if (turns_ > 0) {
      metrics.emplace_back("rollout/turns", turns_ / count_);
      metrics.emplace_back("rollout/truncated", (count_ - stopped_ - aborted_) / count_);
      metrics.emplace_back("rollout/aborted", aborted_ / count_);
    }
    if (rewards_.empty()) return;
    // Rewards that are equal on paper may differ in their last bit.
    const double eps = GroupQueueOptions().eps;
    const auto equal = std::count_if(groups_.begin(), groups_.end(), [&](const auto& group) {
      return reward_deviation(group.second) <= eps;
    });
    metrics.emplace_back("rollout/groups", static_cast<double>(groups_.size()));
    metrics.emplace_back("rollout/zero_variance_groups",
                         static_cast<double>(counts ? counts->zero_variance : equal));
  }

 private:
  static double mean_of(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  static double deviation_of(const std::vector<double>& values, double mean) {
    // The unbiased deviation of a single value is undefined.
    if (values.size() < 2) return 0;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    return std::sqrt(squares / static_cast<double>(values.size() - 1));
  }

  double count_ = 0, stopped_ = 0, turns_ = 0, aborted_ = 0;
  std::vector<double> lengths_, rewards_;
  std::map<const void*, RolloutList> groups_;  // those with a reward
  std::map<std::string, std::pair<double, int64_t>> parts_;
};

// Counts the answers with a reward, by group in the order of sampling.
std::vector<PassCount> pass_counts(const RolloutList& rollouts, double limit) {
  std::vector<PassCount> counts;
  std::map<const void*, size_t> group_at;
  for (const auto& one : rollouts) {
    if (!one->reward) continue;
    const size_t group = group_at.emplace(one->prompt_ids.get(), counts.size()).first->second;
    if (group == counts.size()) counts.emplace_back();
    ++counts[group].answers;
    counts[group].passed += *one->reward > limit ? 1 : 0;
  }
  return counts;
}

void add_pass_rates(const BodyRollouts& body, Metrics& metrics) {
  const std::optional<double> limit = pass_limit(body);
  if (!limit) return;
  const std::vector<PassCount> counts = pass_counts(body.all, *limit);
  const std::vector<int64_t> sizes = pass_sizes(counts);
  if (sizes.size() < 2) return;  // pass@1 of single answers is their mean reward
  for (const int64_t k : sizes) {
    metrics.emplace_back(fmt::format("rollout/pass_at_{}", k), pass_at(k, counts));
  }
  double all = 0, none = 0;
  for (const PassCount& group : counts) {
    all += group.passed == group.answers ? 1 : 0;
    none += group.passed == 0 ? 1 : 0;
  }
  metrics.emplace_back("rollout/groups_all_passed", all / static_cast<double>(counts.size()));
  metrics.emplace_back("rollout/groups_none_passed", none / static_cast<double>(counts.size()));
}

// Adds the counts of a GroupQueue: in this body and since the loop began.
void add_queue_counts(const BodyRollouts& body, Metrics& metrics) {
  const auto add = [&](const char* name, int64_t count) {
    metrics.emplace_back(std::string("rollout/") + name, static_cast<double>(count));
  };
  if (body.counts) {
    add("attempts", body.counts->attempts);
    add("valid_groups", body.counts->valid);
    add("stale_dropped", body.counts->stale);
    add("waiting_groups", body.waiting);
  }
  if (!body.totals) return;
  add("total_attempts", body.totals->attempts);
  add("total_valid_groups", body.totals->valid);
  add("total_zero_variance_groups", body.totals->zero_variance);
  add("total_stale_dropped", body.totals->stale);
  metrics.emplace_back("rollout/attempts_per_batch",
                       static_cast<double>(body.totals->attempts) /
                           static_cast<double>(std::max<int64_t>(body.batches, 1)));
}

Json line_of(const Rollout& one, const std::optional<double>& limit) {
  Json ids = Json::array(), logprobs = Json::array(), parts = Json::object();
  for (const int32_t id : one.ids) ids.push_back(id);
  for (const float logprob : one.logprobs) logprobs.push_back(logprob);
  for (const auto& [name, value] : one.parts) parts.set(name, value);
  Json line(Json::Object{{"row", one.row},
                         {"group", one.prompt},
                         {"sample", one.sample},
                         {"version", one.version},
                         {"finish", one.finish},
                         {"prompt", one.prompt_text},
                         {"text", one.text},
                         {"ids", std::move(ids)},
                         {"logprobs", std::move(logprobs)},
                         {"reward", one.reward ? Json(*one.reward) : Json()},
                         {"parts", std::move(parts)},
                         {"passed", limit && one.reward ? Json(*one.reward > *limit) : Json()},
                         {"advantage", one.advantage ? Json(*one.advantage) : Json()},
                         {"trained", one.trained}});
  if (!one.location.empty()) line.set("location", one.location);
  if (!one.logprobs_kept.empty()) {
    Json kept = Json::array();
    for (const float logprob : one.logprobs_kept) kept.push_back(logprob);
    line.set("logprobs_kept", std::move(kept));
  }
  if (one.routes) line.set("routes", routes_json(*one.routes));
  if (one.turns.empty()) return line;
  Json turns = Json::array();
  for (const RolloutTurn& turn : one.turns) turns.push_back(turn_json(turn));
  line.set("turns", std::move(turns));
  line.set("environment_reward", one.environment_reward);
  return line;
}

}  // namespace

std::optional<double> pass_limit(const BodyRollouts& body) {
  if (body.pass || body.pass_settled) return body.pass;
  // Without `pass`, rewards of 0 and 1 alone mean wrong and right; others have no natural limit.
  const bool binary = std::all_of(body.all.begin(), body.all.end(), [](const auto& one) {
    return !one->reward || *one->reward == 0 || *one->reward == 1;
  });
  return binary ? std::optional<double>(0) : std::nullopt;
}

Metrics rollout_metrics(const BodyRollouts& body) {
  // Each update logged its own. The body computes them from sums over its updates: a mean of
  // maxima, or of shares of unequal updates, would be wrong.
  Metrics metrics = path_metrics(body.updates);
  for (auto& metric : ratio_metrics(body.updates.old, body.updates.sampler)) {
    metrics.push_back(std::move(metric));
  }
  if (body.all.empty()) return metrics;
  RolloutSums sums;
  for (const auto& one : body.all) sums.add(one);
  sums.report(body.counts, metrics);
  add_queue_counts(body, metrics);
  if (body.failed_rewards > 0) {
    metrics.emplace_back("rollout/failed_rewards", static_cast<double>(body.failed_rewards));
  }
  add_pass_rates(body, metrics);
  metrics.emplace_back("perf/sample_s", body.sample_s);
  if (body.sampled > 0 && body.sample_s > 0) {
    metrics.emplace_back("perf/sample_tokens_per_s",
                         static_cast<double>(body.sampled) / body.sample_s);
  }
  metrics.emplace_back("perf/reward_s", body.reward_s);
  // Under perf/ because it depends on the threads.
  if (body.early_rewards > 0) {
    metrics.emplace_back("perf/early_rewards", static_cast<double>(body.early_rewards));
  }
  // Under perf/ because a resumed run begins without drafts.
  if (body.drafted > 0) {
    metrics.emplace_back("perf/draft_accepted",
                         static_cast<double>(body.accepted) / static_cast<double>(body.drawn));
  }
  return metrics;
}

void write_rollouts(const std::filesystem::path& dir, int64_t step, const BodyRollouts& body) {
  const std::optional<double> limit = pass_limit(body);
  std::string lines;
  for (const auto& one : body.all) lines += dump_json(line_of(*one, limit)) + "\n";
  make_dirs(dir);
  write_file_atomic(dir / fmt::format("step_{:07}{}", step, kFileEnd), zstd_frame(lines));
}

int64_t rollout_bytes(int64_t answers, int64_t tokens) {
  return answers * (kAnswerBytes + tokens * kTokenBytes);
}

void cut_rollouts(const std::filesystem::path& dir, int64_t step) {
  std::error_code ignored;
  for (const StepFile& file : step_files(dir, kFileEnd)) {
    if (file.step >= step) std::filesystem::remove(file.path, ignored);
  }
  for (const std::filesystem::path& path : list_folder(dir, ignored)) {
    const std::string name = path.filename().string();
    // Left by a kill during write_file_atomic.
    if (name.find(".zst.tmp") != std::string::npos) std::filesystem::remove(path, ignored);
  }
}

}  // namespace xrun
