// Dynamic sampling (Yu et al. 2025, DAPO, section 3.2): a group whose rewards are all equal has
// advantage 0 in every answer, so it is left out and another prompt is drawn in its place.
//
// State: {"cursor","attempts","valid","zero_variance","stale","streak":{...},"groups":[...]}, the
// groups as in group_state.h.

#include "core/rollout/group_queue.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/rollout/group_state.h"

namespace xrun {

// Returns the unbiased standard deviation of a group's rewards: the divisor of GRPO.
double reward_deviation(const RolloutList& group) {
  if (group.size() < 2) return 0;
  const auto count = static_cast<double>(group.size());
  double sum = 0, squares = 0;
  for (const auto& one : group) sum += one->reward.value();
  for (const auto& one : group) {
    const double off = one->reward.value() - sum / count;
    squares += off * off;
  }
  return std::sqrt(squares / (count - 1));
}

namespace {

// Returns the beginning of `text` in quotes, without characters that act on a terminal.
std::string quoted_start(const std::string& text) {
  constexpr size_t kShown = 200;  // bytes
  return dump_json(Json(repair_utf8(text.substr(0, kShown)))) + (text.size() > kShown ? "..." : "");
}

}  // namespace

void GroupCounts::add(const GroupCounts& more) {
  attempts += more.attempts;
  valid += more.valid;
  zero_variance += more.zero_variance;
  stale += more.stale;
}

GroupQueue::GroupQueue(const GroupQueueOptions& options) : options_(options) {
  const auto check = [](const char* name, int64_t got, int64_t least) {
    XRUN_CHECK(got >= least, "{} is {}, wanted {} or more", name, got, least);
  };
  check("groups", options.groups, 1);
  check("depth", options.depth, 0);
  check("round", options.round, 0);
  check("staleness", options.staleness, 0);
  check("max_attempts", options.max_attempts, 1);
  XRUN_CHECK(options.eps >= 0, "eps is {}, wanted 0 or more", options.eps);
}

void GroupQueue::Streak::add(const RolloutList& group) {
  ++groups;
  if (!group.empty()) latest = group.front();
  for (const auto& one : group) {
    const double reward = one->reward.value();
    lowest = rewards == 0 ? reward : std::min(lowest, reward);
    highest = rewards == 0 ? reward : std::max(highest, reward);
    sum += reward;
    ++rewards;
  }
}

// Without a limit a hopeless recipe would sample forever without a step.
void GroupQueue::give_up() const {
  const Streak& s = streak_;
  std::string mean = "none", cause;
  if (s.rewards > 0) mean = fmt::format("{:.4g}", s.sum / static_cast<double>(s.rewards));
  if (s.rewards == 0) {
    cause = "every reward failed and was masked, or the filter left no answer";
  } else if (s.lowest == s.highest && s.lowest == 0) {
    cause =
        "no answer earns anything: the prompts are too hard for the policy, or the reward does "
        "not recognise a right answer";
  } else if (s.lowest == s.highest) {
    cause = fmt::format(
        "every answer earns {:.4g}: the prompts are too easy for the policy, or "
        "the reward does not depend on the answer",
        s.lowest);
  } else {
    cause = fmt::format(
        "rewards go from {:.4g} to {:.4g} between prompts but not within a group: "
        "each prompt is solved always or never (more samples or a higher "
        "temperature vary the answers), or the reward reads the prompt alone",
        s.lowest, s.highest);
  }
  std::string example;
  if (s.latest != nullptr) {
    example = fmt::format("\n  an answer of the last group: {}\n  to the prompt: {}",
                          quoted_start(s.latest->text), quoted_start(s.latest->prompt_text));
  }
  throw Error(fmt::format(
      "{} groups in a row have equal rewards (a deviation of at most {:g}), so the batch cannot be "
      "filled: of {} groups sampled in this loop {} were valid and {} had zero variance; the mean "
      "reward of the last {} is {}. Likely cause: {}{}\nhint: set max_attempts = {} in "
      "xrun.rollouts to keep trying",
      s.groups, options_.eps, count_text(counts_.attempts), count_text(counts_.valid),
      count_text(counts_.zero_variance), s.groups, mean, cause, example,
      10 * options_.max_attempts));
}

void GroupQueue::drop_stale(int64_t version, TakenGroups& taken) {
  // Versions rise from the front to the back, so stale groups are all at the front.
  while (!waiting_.empty() && version - waiting_.front().front()->version > options_.staleness) {
    const RolloutList& group = waiting_.front();
    taken.left_out.insert(taken.left_out.end(), group.begin(), group.end());
    ++taken.counts.stale;
    ++counts_.stale;
    waiting_.pop_front();
  }
}

void GroupQueue::accept(const SampledPrompts& sampled, TakenGroups& taken) {
  std::set<const Rollout*> accepted;
  for (const RolloutList& group : sampled.groups) {
    ++cursor_;
    ++taken.counts.attempts;
    ++counts_.attempts;
    const bool stand_in = !group.empty() && group.front()->stand_in;
    // Rewards of stand-ins mean nothing, so a dry run takes every group.
    if (stand_in || reward_deviation(group) > options_.eps) {
      ++taken.counts.valid;
      ++counts_.valid;
      // The limit counts groups in a row.
      streak_ = {};
      waiting_.push_back(group);
      for (const auto& one : group) accepted.insert(one.get());
      continue;
    }
    ++taken.counts.zero_variance;
    ++counts_.zero_variance;
    streak_.add(group);
    if (streak_.groups >= options_.max_attempts) give_up();
  }
  for (const auto& one : sampled.all) {
    if (!accepted.contains(one.get())) taken.left_out.push_back(one);
  }
}

TakenGroups GroupQueue::take(int64_t version, const SamplePrompts& sample) {
  // A copy: if sampling fails or is interrupted, the queue is as it was, and a resume repeats the
  // draw.
  GroupQueue next = *this;
  TakenGroups taken;
  next.drop_stale(version, taken);
  // This batch and `depth` more.
  const int64_t wanted = options_.groups * (options_.depth + 1);
  while (next.waiting() < wanted) {
    const int64_t missing = wanted - next.waiting();
    const int64_t count = options_.round > 0 ? options_.round : std::min(missing, options_.groups);
    const SampledPrompts sampled = sample(next.cursor_, count);
    XRUN_CHECK(std::ssize(sampled.groups) == count, "{} prompts were sampled, wanted {}",
               sampled.groups.size(), count);
    next.accept(sampled, taken);
  }
  for (int64_t g = 0; g < options_.groups; ++g) {
    // Copies: the body changes them by scoring and training, but a checkpoint of its beginning
    // needs the unchanged answers.
    RolloutList& group = taken.groups.emplace_back();
    for (const auto& waiting : next.waiting_.front()) {
      const auto& one = group.emplace_back(std::make_shared<Rollout>(*waiting));
      one->prompt = g;
    }
    next.waiting_.pop_front();
  }
  // The record of the body lists the other groups after the trained ones.
  std::map<const void*, int64_t> numbers;
  for (const RolloutList& group : taken.groups) {
    numbers.emplace(group.front()->prompt_ids.get(), group.front()->prompt);
  }
  for (const auto& one : taken.left_out) {
    one->prompt = numbers.emplace(one->prompt_ids.get(), std::ssize(numbers)).first->second;
  }
  *this = std::move(next);
  return taken;
}

Json GroupQueue::state() const {
  Json groups = Json::array();
  for (const RolloutList& group : waiting_) groups.push_back(group_json(group));
  return Json(Json::Object{{"cursor", cursor_},
                           {"attempts", counts_.attempts},
                           {"valid", counts_.valid},
                           {"zero_variance", counts_.zero_variance},
                           {"stale", counts_.stale},
                           {"streak", Json(Json::Object{{"groups", streak_.groups},
                                                        {"rewards", streak_.rewards},
                                                        {"sum", streak_.sum},
                                                        {"lowest", streak_.lowest},
                                                        {"highest", streak_.highest}})},
                           {"groups", std::move(groups)}});
}

void GroupQueue::restore(const Json& state) {
  GroupQueue next(options_);
  next.cursor_ = state.at("cursor").as_int();
  next.counts_ = {state.at("attempts").as_int(), state.at("valid").as_int(),
                  state.at("zero_variance").as_int(), state.at("stale").as_int()};
  const Json& streak = state.at("streak");
  next.streak_ = {streak.at("groups").as_int(), streak.at("rewards").as_int(),
                  streak.at("sum").as_double(), streak.at("lowest").as_double(),
                  streak.at("highest").as_double()};
  for (const Json& group : state.at("groups").as_array()) {
    next.waiting_.push_back(group_from(group));
  }
  *this = std::move(next);
}

}  // namespace xrun
