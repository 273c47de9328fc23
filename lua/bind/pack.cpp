// xrun.pack, xrun.pack_cost and xrun.share_out: sequences into packs, packs over ranks.

#include "core/data/packs/pack.h"

#include "core/base/error.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"
#include "lua/tensor/token_tensors.h"

namespace xrun {

namespace {

void push_lists(lua_State* L, const std::vector<std::vector<int64_t>>& lists) {
  lua_createtable(L, static_cast<int>(lists.size()), 0);
  for (size_t i = 0; i < lists.size(); ++i) {
    push(L, lists[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

int pack_lengths(lua_State* L) {
  push_lists(
      L, best_fit_decreasing(read_whole_numbers(L, 1, "lengths"), arg<int64_t>(L, 2, "capacity")));
  return 1;
}

int cost_of_pack(lua_State* L) {
  const std::string by = opt_arg<std::string>(L, 2, "by").value_or("tokens");
  XRUN_CHECK(by == "tokens" || by == "tokens_squared",
             "argument 2 (by): got \"{}\", wanted \"tokens\" or \"tokens_squared\"", by);
  push(L, pack_cost(by == "tokens" ? PackCost::kTokens : PackCost::kTokensSquared,
                    read_whole_numbers(L, 1, "lengths")));
  return 1;
}

int share_costs(lua_State* L) {
  push_lists(L, share_out(read_whole_numbers(L, 1, "costs"), arg<int64_t>(L, 2, "ranks")));
  return 1;
}

}  // namespace

void open_pack(LuaState& state) {
  state.function("pack", {{"lengths", "integer[]|Tensor"}, {"capacity", "integer"}},
                 {"integer[][]"},
                 "Best-fit-decreasing packs of at most `capacity`: lists of indices from 0 into "
                 "`lengths`, a list or a tensor [n]. Always the same for the same lengths.",
                 pack_lengths);
  state.function("pack_cost", {{"lengths", "integer[]|Tensor"}, {"by?", "string"}}, {"number"},
                 "What a pack of sequences of these lengths costs: \"tokens\" (the default), their "
                 "sum, or \"tokens_squared\", the sum of their squares, which attention takes.",
                 cost_of_pack);
  state.function("share_out", {{"costs", "number[]|Tensor"}, {"ranks", "integer"}}, {"integer[][]"},
                 "Gives each rank its packs, indices from 0 into `costs`, so that ranks cost about "
                 "the same and have equally many packs, or some one more. Always the same for the "
                 "same costs, so every rank can work it out alone.",
                 share_costs);
}

}  // namespace xrun
