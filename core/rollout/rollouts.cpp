// segment = prompt + answer; trained = the sampled tokens of the answer.

#include "core/rollout/rollouts.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/strings.h"
#include "core/data/packs/companion_source.h"
#include "core/data/packs/pack.h"
#include "core/data/packs/pack_plan.h"
#include "core/model/ops/moe_routing.h"
#include "core/prefix/fold_settings.h"
#include "core/train/batches/replayed_routes.h"

namespace xrun {

namespace {

// Returns a flag for each token of the segment: 1 if it was sampled.
std::vector<uint8_t> trained_flags(const Rollout& one) {
  std::vector<uint8_t> flags(one.prompt_ids->size(), 0);
  const auto prompt = static_cast<std::ptrdiff_t>(flags.size());
  // Without turns every token was sampled. With turns the rest are messages of the environment.
  flags.resize(flags.size() + one.ids.size(), one.turns.empty() ? 1 : 0);
  for (const RolloutTurn& turn : one.turns) {
    std::fill(flags.begin() + prompt + turn.begin, flags.begin() + prompt + turn.end, 1);
  }
  return flags;
}

void add_chunks(std::vector<PackedBatch>& packs, const std::optional<RolloutChunks>& chunks) {
  if (!chunks) return;
  if (chunks->companions) return add_companions(packs, *chunks->companions);
  for (PackedBatch& pack : packs) number_row_chunks(pack);
}

// Packs are planned by the same rules as those of data sets: best fit, or folded by prefix.
std::vector<PackedBatch> pack_rollouts(const BatchInfo& info, const RolloutList& rollouts,
                                       const std::optional<RolloutChunks>& chunks) {
  // A batch has at least one micro-batch, on every rank.
  if (rollouts.empty()) return {PackedBatch{}};
  std::vector<std::vector<int32_t>> ids;
  std::vector<int64_t> sizes;
  for (const auto& one : rollouts) {
    ids.push_back(whole_ids(*one));
    sizes.push_back(std::ssize(ids.back()));
    // Never cut: a cut answer would train under the reward of the whole one.
    XRUN_CHECK(info.max_tokens == 0 || sizes.back() <= info.max_tokens,
               "{}: prompt and answer have {} tokens, batch.max_tokens is {}; raise it, or lower "
               "max_tokens of the sampling",
               row_text(info, one->row), count_text(sizes.back()), count_text(info.max_tokens));
  }
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  // Without batch.max_tokens everything is one micro-batch.
  const PackLimits limits = pack_limits(info.max_tokens > 0 ? info.max_tokens : all, info.fold);
  // Tokens share only where they take the same experts, as in the micro-batches.
  RoutedTokens routed;
  std::vector<std::vector<int32_t>> keys;
  for (size_t i = 0; i < ids.size(); ++i) {
    // Without routes these are the ids themselves.
    keys.push_back(routed.keys(ids[i], rollouts[i]->routes.get()));
  }
  std::vector<UnitTokens> units;
  for (const std::vector<int32_t>& one : keys) units.push_back({TokenList(one)});
  std::vector<PackedBatch> packs;
  for (const std::vector<int64_t>& pack : limits.fold
                                              ? plan_folded_packs(units, limits)
                                              : best_fit_decreasing(sizes, limits.max_tokens)) {
    PackedBatch& out = packs.emplace_back();
    for (const int64_t i : pack) {
      // The segment's id is the index of its rollout: fields of the batch are found by it.
      const auto at = static_cast<size_t>(i);
      const Rollout& one = *rollouts[at];
      out.append({.row_id = one.row,
                  .group_id = one.prompt,
                  .segment_id = i,
                  .source = one.source,
                  .weight = one.weight},
                 ids[at], trained_flags(one));
    }
  }
  weigh_shared_rows(packs, info.fold);
  add_chunks(packs, chunks);
  return packs;
}

template <typename Value>
at::Tensor numbers_of(const RolloutList& rollouts, at::ScalarType type, const Value& value) {
  std::vector<double> values;
  for (const auto& one : rollouts) values.push_back(static_cast<double>(value(*one)));
  return at::tensor(values, at::kDouble).to(type);  // exact for counts below 2^53
}

template <typename Value>
std::vector<std::string> strings_of(const RolloutList& rollouts, const Value& value) {
  std::vector<std::string> values;
  for (const auto& one : rollouts) values.push_back(value(*one));
  return values;
}

// Gives each micro-batch the routes of its segments, whose ids are indices of rollouts.
void replay_routes(const Batch& batch, const RolloutList& rollouts) {
  for (const auto& micro : batch.micros()) {
    std::vector<std::shared_ptr<const TokenRoutes>> routes;
    const Model* model = nullptr;
    for (const int64_t i : micro->pack().segment_id) {
      const Rollout& one = *rollouts[static_cast<size_t>(i)];
      routes.push_back(one.routes);
      // All rollouts of a batch come from one policy, so the last is as good as the first.
      if (one.routes) model = one.routed_by;
    }
    if (model != nullptr) micro->replay(*model, std::move(routes));
  }
}

}  // namespace

std::string row_text(const BatchInfo& info, int64_t row) {
  return info.row_name && row >= 0 ? info.row_name(row) : fmt::format("row {}", row);
}

Json turn_json(const RolloutTurn& turn) {
  return Json(Json::Object{{"begin", turn.begin},
                           {"end", turn.end},
                           {"text", turn.text},
                           {"finish", turn.finish},
                           {"tool_calls", turn.calls},
                           {"reply", turn.reply}});
}

RolloutTurn turn_from(const Json& json) {
  // Read from a checkpoint: a missing member is an error, never a default.
  return {json.at("begin").as_int(),     json.at("end").as_int(), json.at("text").as_string(),
          json.at("finish").as_string(), json.at("tool_calls"),   json.at("reply")};
}

Json routes_json(const TokenRoutes& routes) {
  Json experts = Json::array();
  for (const int16_t expert : routes.experts) experts.push_back(expert);
  return Json(Json::Object{
      {"layers", routes.layers}, {"top_k", routes.top_k}, {"experts", std::move(experts)}});
}

std::shared_ptr<const TokenRoutes> routes_from(const Json& json) {
  TokenRoutes routes{json.at("layers").as_int(), json.at("top_k").as_int()};
  for (const Json& expert : json.at("experts").as_array()) {
    routes.experts.push_back(static_cast<int16_t>(expert.as_int()));
  }
  return std::make_shared<const TokenRoutes>(std::move(routes));
}

int64_t Rollout::sampled_tokens() const {
  if (turns.empty()) return std::ssize(ids);
  int64_t count = 0;
  for (const RolloutTurn& turn : turns) count += turn.end - turn.begin;
  return count;
}

std::vector<int32_t> whole_ids(const Rollout& one) {
  std::vector<int32_t> ids = *one.prompt_ids;
  ids.insert(ids.end(), one.ids.begin(), one.ids.end());
  return ids;
}

Rollouts::Rollouts(BatchInfo info, RolloutList rollouts, std::optional<RolloutChunks> chunks)
    : Batch(info, pack_rollouts(info, rollouts, chunks)),
      rollouts_(std::move(rollouts)),
      chunks_(std::move(chunks)) {
  // Numbers that a recipe may filter by or average.
  const auto field = [&](const char* name, const auto& value) {
    set_field(name, numbers_of(rollouts_, at::kLong, value), Unit::kSequence);
  };
  field("sample", [](const Rollout& one) { return one.sample; });
  field("version", [](const Rollout& one) { return one.version; });
  if (std::any_of(rollouts_.begin(), rollouts_.end(),
                  [](const auto& one) { return !one->turns.empty(); })) {
    set_field("environment_reward",
              numbers_of(rollouts_, at::kFloat,
                         [](const Rollout& one) { return one.environment_reward; }),
              Unit::kSequence);
  }
  // [R], in the order of rollouts; set_field deals them to the loss rows of the packs.
  std::vector<float> logprobs;
  for (const auto& one : rollouts_) {
    logprobs.insert(logprobs.end(), one->logprobs.begin(), one->logprobs.end());
  }
  set_sampler_logprob(float_tensor(logprobs));
  replay_routes(*this, rollouts_);
  set_strings("prompt", strings_of(rollouts_, [](const Rollout& one) { return one.prompt_text; }));
  set_strings("text", strings_of(rollouts_, [](const Rollout& one) { return one.text; }));
  set_strings("finish", strings_of(rollouts_, [](const Rollout& one) { return one.finish; }));
}

void Rollouts::set_sampler_logprob(const at::Tensor& logprob) {
  set_field("sampler_logprob", logprob, Unit::kToken);
  set_field("old_logprob", logprob, Unit::kToken);  // a recipe may assign the policy's own
}

void Rollouts::set_rewards() {
  set_field(
      "reward",
      numbers_of(rollouts_, at::kFloat, [](const Rollout& one) { return one.reward.value(); }),
      Unit::kSequence);
}

bool Rollouts::has_routes() const {
  return std::any_of(rollouts_.begin(), rollouts_.end(),
                     [](const auto& one) { return one->routes != nullptr; });
}

at::Tensor Rollouts::routes(int64_t i) const {
  const auto& routes = rollouts_[static_cast<size_t>(i)]->routes;
  if (routes == nullptr) return {};
  return at::tensor(at::ArrayRef<int16_t>(routes->experts))
      .to(at::kLong)
      .view({routes->token_count(), routes->layers, routes->top_k});
}

void Rollouts::note_trained() const {
  // Rollouts are shared with the record of the body, which writes this.
  for (const auto& one : rollouts_) one->trained = true;
  if (!has_field("advantage")) return;
  const at::Tensor values = field("advantage").to(at::kCPU, at::kDouble).contiguous();
  // One advantage per token cannot be recorded for an answer.
  if (values.numel() != std::ssize(rollouts_)) return;
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    rollouts_[i]->advantage = values.const_data_ptr<double>()[i];
  }
}

// Equal rewards give advantages of 0, with which a dry step would not test the objective.
bool Rollouts::vary_stand_ins() {
  if (rollouts_.empty() || !rollouts_.front()->stand_in) return false;
  const bool equal = std::all_of(rollouts_.begin(), rollouts_.end(), [&](const auto& one) {
    // Also true if none has a reward: nothing has scored them.
    return one->reward == rollouts_.front()->reward;
  });
  if (!equal) return false;
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    rollouts_[i]->reward =
        philox_unit(info().seed, kStreamStandIn, static_cast<uint64_t>(info().step), i);
  }
  return true;
}

std::vector<std::vector<int64_t>> Rollouts::groups() const {
  std::vector<std::vector<int64_t>> groups;
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    // Rollouts of one prompt are neighbours.
    if (i == 0 || rollouts_[i]->prompt != rollouts_[i - 1]->prompt) groups.emplace_back();
    groups.back().push_back(static_cast<int64_t>(i));
  }
  return groups;
}

std::vector<std::vector<int64_t>> Rollouts::minibatches(int64_t epochs, int64_t groups) const {
  XRUN_CHECK(epochs >= 1, "epochs is {}, wanted 1 or more", epochs);
  XRUN_CHECK(groups >= 1, "groups is {}, wanted 1 or more", groups);
  const std::vector<std::vector<int64_t>> all = this->groups();
  std::vector<std::vector<int64_t>> batches;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    // Whole groups are shuffled: an advantage compares the answers of one prompt.
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const uint64_t seed =
        philox_u64(info().seed, kStreamMinibatch, static_cast<uint64_t>(info().step),
                   static_cast<uint64_t>(epoch));
    // Fisher-Yates. A modulus of 64 random bits is biased by less than 2^-40 for any batch.
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[philox_u64(seed, kStreamMinibatch, 0, i) % i]);
    }
    for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(groups)) {
      std::vector<int64_t>& batch = batches.emplace_back();
      const size_t end = std::min(order.size(), begin + static_cast<size_t>(groups));
      for (size_t g = begin; g < end; ++g) {
        batch.insert(batch.end(), all[order[g]].begin(), all[order[g]].end());
      }
      std::sort(batch.begin(), batch.end());  // subset() takes ascending indices
    }
  }
  return batches;
}

}  // namespace xrun
