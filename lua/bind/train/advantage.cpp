// xrun.group_advantage and xrun.reinforce: the two primitives of critic-free policy gradients.

#include "core/train/advantage.h"

#include <set>

#include "core/base/error.h"
#include "core/console/terminal/console.h"
#include "core/train/reinforce.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

Baseline baseline_of(const std::string& name) {
  if (name == "mean") return Baseline::kMean;
  XRUN_CHECK(name == "leave_one_out", "baseline is \"{}\", wanted \"mean\" or \"leave_one_out\"",
             name);
  return Baseline::kLeaveOneOut;
}

struct LoneGroupsNotice {
  bool reported = false;
};

// Rewards that are compared with themselves alone teach nothing.
void say_lone_groups(lua_State* L, const at::Tensor& group) {
  auto& notice = LuaState::of(L).service<LoneGroupsNotice>();
  const int64_t rollouts = group.numel();
  if (notice.reported || rollouts == 0) return;
  const at::Tensor ids = group.to(at::kCPU, at::kLong).contiguous();
  const std::set<int64_t> groups(ids.const_data_ptr<int64_t>(),
                                 ids.const_data_ptr<int64_t>() + rollouts);
  if (std::ssize(groups) < rollouts) return;
  notice.reported = true;
  session_of(L).console->print_escaped(
      "warning: every group has one rollout, so all advantages are 0 and nothing is learnt; set "
      "sampling.samples to 2 or more");
}

int push_advantage(lua_State* L) {
  const Options given(L, 3);
  AdvantageOptions options;
  options.baseline = baseline_of(given.get<std::string>("baseline"));
  options.scale = given.get<bool>("scale");
  options.eps = given.get<double>("eps");
  const auto group = arg<at::Tensor>(L, 2, "group");
  push(L, group_advantage(arg<at::Tensor>(L, 1, "reward"), group, options));
  say_lone_groups(L, group);
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
      "the whole step; signed_weight is then a field of the batch, [R] or one weight per sequence "
      "[n], such as r.advantage. Elsewhere: a scalar of two tensors of one shape.",
      push_reinforce);
}

}  // namespace xrun
