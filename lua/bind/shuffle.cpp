// xrun.shuffle: the order of one epoch, alone.

#include "core/base/error.h"
#include "core/data/packs/row_order.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

int make_shuffle(lua_State* L) {
  const int64_t rows = arg<int64_t>(L, 1, "n");
  const Options options(L, 2);
  RowOrder order;
  if (options.has("block") || options.has("window")) order.kind = RowOrder::Kind::kBlock;
  order.block = options.get<int64_t>("block", order.block);
  order.window = options.get<int64_t>("window", order.window);
  const int64_t epoch = options.get<int64_t>("epoch", 0);
  XRUN_CHECK(epoch >= 0, "option `epoch`: got {}, wanted at least 0", epoch);
  push(L, std::make_shared<EpochOrder>(order, rows,
                                       static_cast<uint64_t>(options.get<int64_t>("seed", 0)),
                                       static_cast<uint64_t>(epoch)));
  return 1;
}

int push_row(EpochOrder& order, lua_State* L) {
  push(L, order(arg<int64_t>(L, 2, "i")));
  return 1;
}

int push_size(EpochOrder& order, lua_State* L) {
  push(L, order.size());
  return 1;
}

}  // namespace

void open_shuffle(LuaState& state) {
  Class<EpochOrder>(state, "Shuffle",
                    "An order of n rows that needs no table: a bijection of 0 to n - 1.")
      .metamethod("__call", {{"i", "integer"}}, {"integer"},
                  "The row of the i-th draw, both from 0.", push_row)
      .metamethod("__len", {}, {"integer"}, "How many rows there are.", push_size);
  state.function("shuffle",
                 {{"n", "integer"}, {"options?", "table", {"seed", "epoch", "block", "window"}}},
                 {"Shuffle"},
                 "The order in which an epoch visits n rows, a pure function of seed and epoch "
                 "(both 0). With block (256) or window (512) blocks of that many rows move whole, "
                 "then rows move inside a window of that many blocks.",
                 make_shuffle);
}

}  // namespace xrun
