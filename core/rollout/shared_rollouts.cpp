// A rank's message lists its rollouts, each as prompt, sample and what was sampled.

#include "core/rollout/shared_rollouts.h"

#include <algorithm>
#include <tuple>

#include "core/dist/agreement.h"
#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
#include "core/model/ops/moe_routing.h"

namespace xrun {

namespace {

// The structured binding names every member: a new one does not compile until it is sent or known
// to be made again.
void write(const Rollout& rollout, MessageWriter& out) {
  [[maybe_unused]] const auto& [row, location, source, weight, prompt, sample, version, prompt_ids,
                                ids, logprobs, logprobs_kept, prompt_text, text, finish, turns,
                                environment_reward, reward, parts, advantage, routes, routed_by,
                                trained, stand_in] = rollout;
  out.int64(prompt).int64(sample).list(ids).list(logprobs).list(logprobs_kept);
  out.string(prompt_text).string(text).string(finish).float64(environment_reward);
  Json spoken = Json::array();
  for (const RolloutTurn& turn : turns) spoken.push_back(turn_json(turn));
  out.string(dump_json(spoken)).int64(routes ? 1 : 0);
  if (routes) out.int64(routes->layers).int64(routes->top_k).list(routes->experts);
}

void read(MessageReader& in, Rollout& rollout) {
  rollout.ids = in.list<int32_t>();
  rollout.logprobs = in.list<float>();
  rollout.logprobs_kept = in.list<float>();
  rollout.prompt_text = in.string();
  rollout.text = in.string();
  rollout.finish = in.string();
  rollout.environment_reward = in.float64();
  const Json turns = parse_json(in.string(), "the turns of a rank");
  for (const Json& turn : turns.as_array()) {
    rollout.turns.push_back(turn_from(turn));
  }
  // 0: no routes were recorded.
  if (in.int64() == 0) return;
  TokenRoutes routes;
  routes.layers = in.int64();
  routes.top_k = in.int64();
  routes.experts = in.list<int16_t>();
  rollout.routes = std::make_shared<const TokenRoutes>(std::move(routes));
}

}  // namespace

bool owns_prompt(const Ranks* ranks, int64_t prompt) {
  return ranks == nullptr || prompt % ranks->size() == ranks->rank();
}

RolloutList share_rollouts(
    Ranks* ranks, const std::function<RolloutList()>& sample,
    const std::function<std::shared_ptr<Rollout>(int64_t prompt, int64_t sample)>& new_rollout) {
  if (ranks == nullptr) return sample();
  const std::vector<std::string> messages = gather_results(ranks, "rollouts", [&] {
    MessageWriter own;
    for (const auto& one : sample()) write(*one, own);
    return own.take();
  });
  RolloutList all;
  for (const std::string& message : messages) {
    MessageReader in(message);
    while (!in.done()) {
      const int64_t prompt = in.int64();
      // `new_rollout` fills in what every rank knows: row, prompt, weights, version.
      read(in, *all.emplace_back(new_rollout(prompt, in.int64())));
    }
  }
  // The order of one process, whichever rank sampled.
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a->prompt, a->sample) < std::tie(b->prompt, b->sample);
  });
  return all;
}

}  // namespace xrun
