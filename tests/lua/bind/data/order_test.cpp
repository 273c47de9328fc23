// xrun.shuffle, xrun.mixture and xrun.pack.

#include "lua/bind/modules.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::order_test {

class LuaOrder : public LuaTest {
 protected:
  LuaOrder() {
    open_shuffle(state_);
    open_mixture(state_);
    open_pack(state_);
  }
};

TEST_F(LuaOrder, AShuffleVisitsEveryRowOncePerEpoch) {
  EXPECT_EQ(run("local seen, moved = {}, 0\n"
                "local order = xrun.shuffle(100, { seed = 3, epoch = 1 })\n"
                "for i = 0, #order - 1 do\n"
                "  local row = order(i)\n"
                "  assert(not seen[row] and row >= 0 and row < 100)\n"
                "  seen[row] = true\n"
                "  if row ~= xrun.shuffle(100, { seed = 3 })(i) then moved = moved + 1 end\n"
                "end\n"
                "return #order, moved > 50"),
            "100, true");
}

TEST_F(LuaOrder, AShuffleByBlocksLeavesThePartialBlockLast) {
  EXPECT_EQ(run("return xrun.shuffle(37, { block = 4, window = 3 })(36)"), "36");
  EXPECT_EQ(run("return #xrun.shuffle(0)"), "0");
}

TEST_F(LuaOrder, AShuffleRefusesUnknownRowsAndOptions) {
  error_has("return xrun.shuffle(10)(10)", "an order of 10 rows has no index 10");
  error_has("return xrun.shuffle(-1)", "a shuffle of -1 rows, wanted at least 0");
  error_has("return xrun.shuffle(10, { blocks = 3 })", "did you mean `block`?");
  error_has("return xrun.shuffle(10, { block = 0 })", "shuffle.block is 0, wanted at least 1 row");
  error_has("return xrun.shuffle(10, { epoch = -1 })", "option `epoch`: got -1");
}

TEST_F(LuaOrder, AMixtureGivesSourceAndDraw) {
  EXPECT_EQ(run("local mix = xrun.mixture({ 0.5, 0.3, 0.2 }, { shuffle = false, block = 10,\n"
                "  sizes = { 5, 5, 5 } })\n"
                "local source, draw = mix(22)\n"
                "return mix.length, source, draw, xrun.mixture({ 1, 1 }).length"),
            "23, 3, 4, nil");
}

TEST_F(LuaOrder, AMixtureChangesItsWeightsByStages) {
  EXPECT_EQ(run("local mix = xrun.mixture(nil, { batch = 10, shuffle = false, stages = {\n"
                "  { start = 0, weights = { 1, 0 } }, { start = 5, weights = { 0, 1 } } } })\n"
                "return mix(49), mix(50)"),
            "1, 2, 0");  // the first call gives its source alone
  EXPECT_EQ(run("return xrun.mixture({ 1, 1 }, { sizes = { 3, 9 }, stop = 'first', block = 4,\n"
                "  shuffle = false }).length"),
            "5");
}

TEST_F(LuaOrder, AMixtureRefusesBadWeightsStagesAndSizes) {
  error_has("return xrun.mixture({})", "argument 1 (weights): got ");
  error_has("return xrun.mixture({ 1, 'a' })", "wanted a list of numbers");
  error_has("return xrun.mixture({ 1 }, { stages = {} })", "not both");
  error_has("return xrun.mixture(nil, { stages = { { start = 0, weight = { 1 } } } })",
            "did you mean `weights`?");
  error_has("return xrun.mixture({ 1, 1 }, { sizes = { 1 } })",
            "option `sizes` has 1 number for 2 sources; give one number per source");
  error_has("return xrun.mixture({ 1, 1 }, { stop = 'never' })", "restart");
  error_has("return xrun.mixture({ 1, 1 }, { block = 0 })", "block has 0 rows");
  error_has("return xrun.mixture({ 1, 1 })(-1)", "no index -1");
  error_has("return xrun.mixture({ 1, 1 }, { sizes = { 2, 2 } })(99999)", "no index 99999");
}

TEST_F(LuaOrder, PacksAreListsOfIndicesFromZero) {
  const char* text =
      "local out = {}\n"
      "for _, pack in ipairs(packs) do out[#out + 1] = table.concat(pack, ' ') end\n"
      "return table.concat(out, '; ')";
  EXPECT_EQ(run(std::string("local packs = xrun.pack({ 3, 7, 4, 6 }, 10)\n") + text), "0 1; 2 3");
  EXPECT_EQ(run(std::string("local packs = xrun.pack(xrun.tensor({ 3, 7, 4, 6 }), 10)\n") + text),
            "0 1; 2 3");
}

TEST_F(LuaOrder, PackingRefusesItemsThatDoNotFit) {
  error_has("return xrun.pack({ 3, 11 }, 10)", "packing: item 1 has size 11, the capacity is 10");
  error_has("return xrun.pack({ 3, 1.5 }, 10)", "element 2 of lengths");
  error_has("return xrun.pack(xrun.ones(3), 10)", "argument 1 (lengths): got f32[3]");
}

}  // namespace xrun::order_test
