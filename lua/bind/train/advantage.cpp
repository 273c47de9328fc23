// xrun.group_advantage and xrun.reinforce: the two primitives of critic-free policy gradients.

#include "core/train/advantage.h"

#include "core/base/error.h"
#include "core/train/reinforce.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

Baseline baseline_of(const std::string& name) {
  if (name == "mean") return Baseline::kMean;
  XRUN_CHECK(name == "leave_one_out", "baseline is \"{}\", wanted \"mean\" or \"leave_one_out\"",
             name);
  return Baseline::kLeaveOneOut;
}

int push_advantage(lua_State* L) {
  const Options given(L, 3);
  AdvantageOptions options;
  options.baseline = baseline_of(given.get<std::string>("baseline"));
  options.scale = given.get<bool>("scale");
  options.eps = given.get<double>("eps");
  push(L,
       group_advantage(arg<at::Tensor>(L, 1, "reward"), arg<at::Tensor>(L, 2, "group"), options));
  return 1;
}

int push_reinforce(lua_State* L) {
  const auto logprob = arg<at::Tensor>(L, 1, "logprob");
  const auto weight = arg<at::Tensor>(L, 2, "signed_weight");
  MicroBatch* const micro = open_micro(L);
  push(L, micro == nullptr ? reinforce(logprob, weight) : reinforce(*micro, logprob, weight));
  return 1;
}

}  // namespace

void open_advantage(LuaState& state) {
  state.function(
      "group_advantage",
      {{"reward", "Tensor"},
       {"group", "Tensor"},
       {"options?",
        "table",
        {{"baseline", "\"mean\"|\"leave_one_out\"", "mean"},
         {"scale", "boolean", true},
         {"eps", "number", AdvantageOptions().eps}}}},
      {{"Tensor", "[N]"}},
      "The reward of each rollout minus its group's baseline: baseline = \"mean\" or "
      "\"leave_one_out\" (the mean of the others); scale = true also divides by the group's "
      "unbiased standard deviation + eps. Groups may differ in size; equal rewards and groups of "
      "one give 0.",
      push_advantage);
  state.function(
      "reinforce", {{"logprob", "Tensor"}, {"signed_weight", "Tensor"}}, {{"Tensor", "[R]"}},
      "-sum(w log p) / sum|w|. Inside an objective: one loss per trained token, with the sums over "
      "the whole step; signed_weight is then a field of the batch, [R] or one weight a sequence "
      "[n], such as r.advantage. Elsewhere: a scalar of two tensors of one shape.",
      push_reinforce);
}

}  // namespace xrun
