// A group is known by the prompt that its rollouts share: two calls of policy:sample in one body
// count their prompts from 0 each.

#include "core/rollout/rollout_log.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/compression.h"
#include "core/base/file.h"
#include "core/base/json.h"

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

  void report(Metrics& metrics) const {
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
    metrics.emplace_back("rollout/zero_variance_groups", static_cast<double>(equal));
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

Json line_of(const Rollout& one) {
  Json ids = Json::array(), logprobs = Json::array(), parts = Json::object();
  for (const int32_t id : one.ids) ids.push_back(id);
  for (const float logprob : one.logprobs) logprobs.push_back(logprob);
  for (const auto& [name, value] : one.parts) parts.set(name, value);
  Json line(Json::Object{{"row", one.row},
                         {"group", one.prompt},
                         {"sample", one.sample},
                         {"version", one.version},
                         {"finish", one.finish},
                         {"text", one.text},
                         {"ids", std::move(ids)},
                         {"logprobs", std::move(logprobs)},
                         {"reward", one.reward ? Json(*one.reward) : Json()},
                         {"parts", std::move(parts)},
                         {"trained", one.trained}});
  if (one.turns.empty()) return line;
  Json turns = Json::array();
  for (const RolloutTurn& turn : one.turns) {
    turns.push_back(Json(Json::Object{{"begin", turn.begin},
                                      {"end", turn.end},
                                      {"text", turn.text},
                                      {"finish", turn.finish},
                                      {"tool_calls", turn.calls},
                                      {"reply", turn.reply}}));
  }
  line.set("turns", std::move(turns));
  line.set("environment_reward", one.environment_reward);
  return line;
}

}  // namespace

Metrics rollout_metrics(const BodyRollouts& body) {
  Metrics metrics;
  if (body.all.empty()) return metrics;
  RolloutSums sums;
  for (const auto& one : body.all) sums.add(*one);
  sums.report(metrics);
  if (body.failed_rewards > 0) {
    metrics.emplace_back("rollout/failed_rewards", static_cast<double>(body.failed_rewards));
  }
  metrics.emplace_back("perf/sample_s", body.sample_s);
  metrics.emplace_back("perf/reward_s", body.reward_s);
  return metrics;
}

void write_rollouts(const std::filesystem::path& dir, int64_t step, const BodyRollouts& body) {
  std::string lines;
  for (const auto& one : body.all) lines += dump_json(line_of(*one)) + "\n";
  make_dirs(dir);
  write_file_atomic(dir / fmt::format("step_{:07}.jsonl.zst", step), zstd_frame(lines));
}

}  // namespace xrun
