// {"row","prompt_ids","prompt_text","samples":[{"sample","version","ids","logprobs","text",
//   "finish","turns","environment_reward","reward","parts","routes"}]}, with "logprobs_kept" where
// draws were truncated. Numbers are written so that they read back equal, so a restored group
// trains to the same bits. Source and loss weight are not here: they are the row's.

#include "core/rollout/group_state.h"

#include <memory>
#include <utility>

#include "core/base/error.h"

namespace xrun {

namespace {

template <typename Value>
Json array_of(const std::vector<Value>& values) {
  Json array = Json::array();
  for (const Value value : values) array.push_back(value);
  return array;
}

// The structured binding names every member: a new one does not compile until it is saved here or
// known to be made again.
Json sample_json(const Rollout& one) {
  [[maybe_unused]] const auto& [row, location, source, weight, prompt, sample, version, prompt_ids,
                                ids, logprobs, logprobs_kept, prompt_text, text, finish, turns,
                                environment_reward, reward, parts, advantage, routes, routed_by,
                                trained, stand_in] = one;
  Json spoken = Json::array();
  for (const RolloutTurn& turn : turns) spoken.push_back(turn_json(turn));
  Json named = Json::object();
  for (const auto& [name, value] : parts) named.set(name, value);
  Json json(Json::Object{{"sample", sample},
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
  if (!logprobs_kept.empty()) json.set("logprobs_kept", array_of(logprobs_kept));
  return json;
}

std::vector<int32_t> ids_from(const Json& json) {
  std::vector<int32_t> ids;
  for (const Json& id : json.as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
  return ids;
}

std::vector<float> floats_from(const Json& json) {
  std::vector<float> values;
  for (const Json& value : json.as_array()) {
    values.push_back(static_cast<float>(value.as_double()));
  }
  return values;
}

}  // namespace

Json group_json(const RolloutList& group) {
  // The prompt is saved once for all samples.
  const Rollout& first = *group.front();
  Json samples = Json::array();
  for (const auto& one : group) samples.push_back(sample_json(*one));
  return Json(Json::Object{{"row", first.row},
                           {"prompt_ids", array_of(*first.prompt_ids)},
                           {"prompt_text", first.prompt_text},
                           {"samples", std::move(samples)}});
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
    one->logprobs = floats_from(saved.at("logprobs"));
    if (const Json* kept = saved.find("logprobs_kept")) one->logprobs_kept = floats_from(*kept);
    one->prompt_text = json.at("prompt_text").as_string();
    one->text = saved.at("text").as_string();
    one->finish = saved.at("finish").as_string();
    // Turns must follow one another within the ids: the file may be damaged.
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

}  // namespace xrun
