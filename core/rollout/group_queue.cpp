// Dynamic sampling (Yu et al. 2025, DAPO, section 3.2): a group whose rewards are all equal has
// advantage 0 in every answer, so it is left out and another prompt is drawn in its place.
//
// State: {"cursor","attempts","valid","zero_variance","stale","streak":{...},"groups":[
//   {"row","prompt_ids","prompt_text","samples":[{"sample","version","ids","logprobs","text",
//    "finish","turns","environment_reward","reward","parts","routes"}]}]}
// Numbers are written so that they read back equal, so a restored group trains to the same bits.

#include "core/rollout/group_queue.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/ops/moe_routing.h"

namespace xrun {

namespace {

template <typename Value>
Json array_of(const std::vector<Value>& values) {
  Json array = Json::array();
  for (const Value value : values) array.push_back(value);
  return array;
}

Json routes_json(const TokenRoutes& routes) {
  return Json(Json::Object{
      {"layers", routes.layers}, {"top_k", routes.top_k}, {"experts", array_of(routes.experts)}});
}

std::shared_ptr<const TokenRoutes> routes_from(const Json& json) {
  TokenRoutes routes{json.at("layers").as_int(), json.at("top_k").as_int()};
  for (const Json& expert : json.at("experts").as_array()) {
    routes.experts.push_back(static_cast<int16_t>(expert.as_int()));
  }
  return std::make_shared<const TokenRoutes>(std::move(routes));
}

// The structured binding names every member: a new one does not compile until it is saved here or
// known to be made again.
Json sample_json(const Rollout& one) {
  const auto& [row, prompt, sample, version, prompt_ids, ids, logprobs, prompt_text, text, finish,
               turns, environment_reward, reward, parts, advantage, routes, routed_by, trained,
               stand_in] = one;
  static_cast<void>(row), static_cast<void>(prompt_ids), static_cast<void>(prompt_text);
  static_cast<void>(prompt), static_cast<void>(trained), static_cast<void>(stand_in);
  static_cast<void>(advantage), static_cast<void>(routed_by);
  Json spoken = Json::array();
  for (const RolloutTurn& turn : turns) spoken.push_back(turn_json(turn));
  Json named = Json::object();
  for (const auto& [name, value] : parts) named.set(name, value);
  return Json(Json::Object{{"sample", sample},
                           {"version", version},
                           {"ids", array_of(ids)},
                           {"logprobs", array_of(logprobs)},
                           {"text", text},
                           {"finish", finish},
                           {"turns", std::move(spoken)},
                           {"environment_reward", environment_reward},
                           {"reward", reward.value()},
                           {"parts", std::move(named)},
                           {"routes", routes ? routes_json(*routes) : Json()}});
}

Json group_json(const RolloutList& group) {
  const Rollout& first = *group.front();
  Json samples = Json::array();
  for (const auto& one : group) samples.push_back(sample_json(*one));
  return Json(Json::Object{{"row", first.row},
                           {"prompt_ids", array_of(*first.prompt_ids)},
                           {"prompt_text", first.prompt_text},
                           {"samples", std::move(samples)}});
}

std::vector<int32_t> ids_from(const Json& json) {
  std::vector<int32_t> ids;
  for (const Json& id : json.as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
  return ids;
}

RolloutList group_from(const Json& json) {
  const auto prompt_ids =
      std::make_shared<const std::vector<int32_t>>(ids_from(json.at("prompt_ids")));
  RolloutList group;
  for (const Json& saved : json.at("samples").as_array()) {
    auto one = std::make_shared<Rollout>();
    one->row = json.at("row").as_int();
    one->sample = saved.at("sample").as_int();
    one->version = saved.at("version").as_int();
    one->prompt_ids = prompt_ids;
    one->ids = ids_from(saved.at("ids"));
    for (const Json& logprob : saved.at("logprobs").as_array()) {
      one->logprobs.push_back(static_cast<float>(logprob.as_double()));
    }
    one->prompt_text = json.at("prompt_text").as_string();
    one->text = saved.at("text").as_string();
    one->finish = saved.at("finish").as_string();
    int64_t begin = 0;
    for (const Json& turn : saved.at("turns").as_array()) {
      one->turns.push_back(turn_from(turn));
      const RolloutTurn& read = one->turns.back();
      XRUN_CHECK(begin <= read.begin && read.begin <= read.end && read.end <= std::ssize(one->ids),
                 "a turn has the ids {} to {} of {}", read.begin, read.end, one->ids.size());
      begin = read.end;
    }
    XRUN_CHECK(std::ssize(one->logprobs) == one->sampled_tokens(),
               "an answer has {} sampled tokens and {} log-probs", one->sampled_tokens(),
               one->logprobs.size());
    one->environment_reward = saved.at("environment_reward").as_double();
    one->reward = saved.at("reward").as_double();
    if (!saved.at("routes").is_null()) one->routes = routes_from(saved.at("routes"));
    for (const auto& [name, value] : saved.at("parts").as_object()) {
      one->parts.emplace_back(name, value.as_double());
    }
    group.push_back(std::move(one));
  }
  XRUN_CHECK(!group.empty(), "a group has no answers");
  return group;
}

}  // namespace

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
  for (const auto& one : group) {
    const double reward = one->reward.value();
    lowest = rewards == 0 ? reward : std::min(lowest, reward);
    highest = rewards == 0 ? reward : std::max(highest, reward);
    sum += reward;
    ++rewards;
  }
}

void GroupQueue::give_up() const {
  const Streak& s = streak_;
  std::string mean = "none", cause;
  if (s.rewards > 0) mean = fmt::format("{:.4g}", s.sum / static_cast<double>(s.rewards));
  if (s.rewards == 0) {
    cause = "every reward failed and was masked";
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
  throw Error(fmt::format(
      "{} groups in a row have equal rewards (a deviation of at most {:g}), so the batch cannot be "
      "filled: of {} groups sampled in this loop {} were valid and {} had zero variance; the mean "
      "reward of the last {} is {}. Likely cause: {}\nhint: max_attempts = {} of xrun.rollouts "
      "would try on",
      s.groups, options_.eps, count_text(counts_.attempts), count_text(counts_.valid),
      count_text(counts_.zero_variance), s.groups, mean, cause, 10 * options_.max_attempts));
}

void GroupQueue::drop_stale(int64_t version, TakenGroups& taken) {
  // Versions rise from the front to the back.
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
    if (stand_in || reward_deviation(group) > options_.eps) {
      ++taken.counts.valid;
      ++counts_.valid;
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

TakenGroups GroupQueue::take(int64_t version, const Sample& sample) {
  GroupQueue next = *this;
  TakenGroups taken;
  next.drop_stale(version, taken);
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
    taken.groups.push_back(next.waiting_.front());
    next.waiting_.pop_front();
  }
  int64_t prompt = -1;
  for (const RolloutList& group : taken.groups) {
    ++prompt;
    for (const auto& one : group) {
      one->prompt = prompt;
      one->trained = false;  // a step that is taken back is trained again
    }
  }
  // In the record of the body further groups follow the trained ones.
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
