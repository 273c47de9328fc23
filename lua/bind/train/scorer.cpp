// xrun.scorer: a value head over a policy.

#include "core/train/models/scorer.h"

#include <ATen/core/Tensor.h>

#include "core/train/batches/batch.h"
#include "core/train/models/policy.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// A batch is scored whole and without gradient; a view in the step's forward.
int push_score(Scorer& scorer, lua_State* L) {
  if (class_of(L, 2) == &class_info<Batch>) {
    push(L, scorer.score(whole_batch(L, 2)));
  } else {
    push(L, scorer.score(read_view(L, 2)));
  }
  return 1;
}

std::string describe_scorer(const Scorer& scorer) {
  return "Scorer of " + scorer.policy()->dir().filename().string();
}

}  // namespace

void open_scorer(LuaState& state) {
  Class<Scorer>(
      state, "Scorer",
      "A value head over a policy: one number per sequence, from the hidden state of its last "
      "token. The head starts at zero, so every score does.")
      .method(
          "score", {{"view", "View|Batch"}}, {{"Tensor", "[n]"}},
          "The score of each sequence. Of a view: in the micro-batch's one forward; of a batch: "
          "all micro-batches, without gradient, in batch order.",
          push_score)
      .property("policy", "Policy", "The policy whose hidden states it reads.",
                [](Scorer& self, lua_State* L) {
                  push(L, self.policy());
                  return 1;
                })
      .tostring(describe_scorer);
  state.function("scorer", {{"policy", "Policy"}}, {"Scorer"},
                 "Puts a value head on a policy; xrun.adamw over it trains both.",
                 [](lua_State* L) {
                   push(L, std::make_shared<Scorer>(arg<std::shared_ptr<Policy>>(L, 1, "policy")));
                   return 1;
                 });
}

}  // namespace xrun
