// A group is known by the prompt that its rollouts share: two calls of policy:sample in one body
// count their prompts from 0 each.

#include "core/rollout/rollout_log.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/compression.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/pass_rate.h"

namespace xrun {

namespace {

struct RewardRange {
  double low, high;
};

// Sums in the order of rollouts; groups only by lookups, so no address reaches a result.
class RolloutSums {
 public:
  void add(const Rollout& one) {
    ++count_;
    const auto length = static_cast<double>(one.logprobs.size());
    tokens_ += length;
    longest_ = std::max(longest_, length);
    stopped_ += one.stopped() ? 1 : 0;
    turns_ += static_cast<double>(one.turns.size());
    aborted_ += one.aborted() ? 1 : 0;
    if (!one.reward) return;
    rewards_.push_back(*one.reward);
    const auto [found, is_new] =
        groups_.emplace(one.prompt_ids.get(), RewardRange{*one.reward, *one.reward});
    found->second.low = std::min(found->second.low, *one.reward);
    found->second.high = std::max(found->second.high, *one.reward);
    for (const auto& [name, value] : one.parts) {
      auto& [sum, count] = parts_[name];
      sum += value;
      ++count;
    }
  }

  void report(const std::optional<GroupCounts>& counts, Metrics& metrics) const {
    if (!rewards_.empty()) {
      metrics.emplace_back("rollout/reward", mean());
      metrics.emplace_back("rollout/reward_std", deviation());
      for (const auto& [name, part] : parts_) {
        metrics.emplace_back("rollout/reward/" + name,
                             part.first / static_cast<double>(part.second));
      }
    }
    metrics.emplace_back("rollout/length", tokens_ / count_);
    metrics.emplace_back("rollout/length_max", longest_);
    metrics.emplace_back("rollout/stopped", stopped_ / count_);
    if (turns_ > 0) {
      metrics.emplace_back("rollout/turns", turns_ / count_);
      metrics.emplace_back("rollout/truncated", (count_ - stopped_ - aborted_) / count_);
      metrics.emplace_back("rollout/aborted", aborted_ / count_);
    }
    if (rewards_.empty()) return;
    const auto equal = std::count_if(groups_.begin(), groups_.end(), [](const auto& group) {
      return group.second.low == group.second.high;
    });
    metrics.emplace_back("rollout/groups", static_cast<double>(groups_.size()));
    metrics.emplace_back("rollout/zero_variance_groups",
                         static_cast<double>(counts ? counts->zero_variance : equal));
  }

 private:
  double mean() const {
    double sum = 0;
    for (const double reward : rewards_) sum += reward;
    return sum / static_cast<double>(rewards_.size());
  }
  double deviation() const {
    if (rewards_.size() < 2) return 0;
    double squares = 0;
    for (const double reward : rewards_) squares += (reward - mean()) * (reward - mean());
    return std::sqrt(squares / static_cast<double>(rewards_.size() - 1));
  }

  double count_ = 0, tokens_ = 0, longest_ = 0, stopped_ = 0, turns_ = 0, aborted_ = 0;
  std::vector<double> rewards_;
  std::map<const void*, RewardRange> groups_;
  std::map<std::string, std::pair<double, int64_t>> parts_;
};

// Answers with a reward, by group in the order of sampling.
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
  const bool binary = std::all_of(body.all.begin(), body.all.end(), [](const auto& one) {
    return !one->reward || *one->reward == 0 || *one->reward == 1;
  });
  return binary ? std::optional<double>(0) : std::nullopt;
}

Metrics rollout_metrics(const BodyRollouts& body) {
  Metrics metrics;
  if (body.all.empty()) return metrics;
  RolloutSums sums;
  for (const auto& one : body.all) sums.add(*one);
  sums.report(body.counts, metrics);
  if (body.counts) {
    for (const auto& [name, count] : {std::pair{"attempts", body.counts->attempts},
                                      {"valid_groups", body.counts->valid},
                                      {"stale_dropped", body.counts->stale},
                                      {"waiting_groups", body.waiting}}) {
      metrics.emplace_back(std::string("rollout/") + name, static_cast<double>(count));
    }
  }
  if (body.failed_rewards > 0) {
    metrics.emplace_back("rollout/failed_rewards", static_cast<double>(body.failed_rewards));
  }
  add_pass_rates(body, metrics);
  metrics.emplace_back("perf/sample_s", body.sample_s);
  metrics.emplace_back("perf/reward_s", body.reward_s);
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
  write_file_atomic(dir / fmt::format("step_{:07}.jsonl.zst", step), zstd_frame(lines));
}

void remove_partial_rollouts(const std::filesystem::path& dir) {
  std::error_code ignored;
  std::vector<std::filesystem::path> partial;
  for (const auto& entry : std::filesystem::directory_iterator(dir, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".zst.tmp") != std::string::npos) partial.push_back(entry.path());
  }
  for (const auto& path : partial) std::filesystem::remove(path, ignored);
}

}  // namespace xrun
