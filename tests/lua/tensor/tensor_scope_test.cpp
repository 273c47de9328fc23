// Lifetimes: byte debt, scopes, and the memory of many steps.

#include <malloc.h>

#include <sstream>

#include "core/base/file.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun {

struct TensorLedgerPeer {
  static int64_t soft_limit(const TensorLedger& ledger) { return ledger.soft_limit_; }
};

}  // namespace xrun

namespace xrun::tensor_scope_test {
namespace {

int64_t resident_bytes() {
  std::istringstream words(read_file("/proc/self/statm"));
  int64_t pages = 0;
  words >> pages >> pages;
  return pages * 4096;
}

}  // namespace

class TensorScopes : public LuaTest {
 protected:
  TensorLedger& ledger() { return state_.service<TensorLedger>(); }
};

TEST_F(TensorScopes, CloseAllButReturnedTensors) {
  error_has(
      "local kept, lost\n"
      "kept = xrun.scope(function() lost = xrun.ones(2); return lost + 1 end)\n"
      "assert(kept[0]:item() == 2)\n"
      "return lost + 1",
      "this Tensor is closed");
  EXPECT_EQ(run("local a, m = xrun.scope(function()\n"
                "  return xrun.ones(2), {margin = xrun.ones(1), list = {xrun.zeros(1)}} end)\n"
                "return m.margin:item(), m.list[1]:item(), a[0]:item()"),
            "1, 0, 1");
}

TEST_F(TensorScopes, NestAndPassReturnedTensorsToTheOuterScope) {
  error_has(
      "local inner\n"
      "xrun.scope(function() inner = xrun.scope(function() return xrun.ones(1) end)\n"
      "  assert(inner:item() == 1) end)\n"
      "return inner:item()",
      "closed");
}

TEST_F(TensorScopes, ReturnKeptTensorsWithoutTakingThemOver) {
  EXPECT_EQ(run("local kept = xrun.keep(xrun.ones(1))\n"
                "xrun.scope(function() xrun.scope(function() return kept end) end)\n"
                "return kept:item()"),
            "1");
}

TEST_F(TensorScopes, EndWithAnErrorToo) {
  error_has(
      "local t\npcall(xrun.scope, function() t = xrun.ones(1); error('x') end)\n"
      "return t:item()",
      "closed");
}

TEST_F(TensorScopes, KeptTensorsOutliveThem) {
  EXPECT_EQ(
      run("local kept\n"
          "xrun.scope(function() kept = xrun.keep(xrun.ones({1}, {requires_grad = true})) end)\n"
          "return kept.requires_grad, kept:item()"),
      "false, 1");
}

TEST_F(TensorScopes, ReleaseEveryByte) {
  run("xrun.scope(function() for i = 1, 10 do local t = xrun.ones(1000) end end)");
  EXPECT_EQ(ledger().live_tensors(), 0);
  EXPECT_EQ(ledger().live_bytes(), 0);
  run("collectgarbage(); collectgarbage()");
  EXPECT_EQ(ledger().live_tensors(), 0);
}

TEST_F(TensorScopes, TheByteDebtCollectsMemoryThatLuaCannotSee) {
  run("for i = 1, 400 do local t = xrun.zeros(1000, 1000) end");
  EXPECT_GE(ledger().collections(), 10);
  EXPECT_LE(ledger().live_bytes(), int64_t{80} << 20);
}

TEST_F(TensorScopes, TheSoftLimitGrowsWhileMostIsAlive) {
  const int64_t before = TensorLedgerPeer::soft_limit(ledger());
  run("local all = {}; for i = 1, 60 do all[i] = xrun.zeros(1000, 1000) end");
  EXPECT_GT(TensorLedgerPeer::soft_limit(ledger()), before);
}

TEST_F(TensorScopes, SlowTwoThousandStepsKeepMemoryFlat) {
  const std::string steps = R"(
    local weight = xrun.randn({64}, {requires_grad = true})
    local function objective(chosen, rejected)
      local margin = 0.1 * (chosen - rejected) * weight
      return -margin:log_sigmoid(), {margin = margin, accuracy = (margin:sign() + 1) / 2}
    end
    for step = 1, STEPS do
      local chosen, rejected = xrun.randn{64}, xrun.randn{64}
      local loss, metrics = objective(chosen, rejected)
      loss:mean():backward()
      weight.grad = nil
      if step % 20 == 0 then local big = xrun.ones(1000, 1000) * 2 end
    end)";
  const auto with = [&](int count) {
    std::string text = steps;
    return text.replace(text.find("STEPS"), 5, std::to_string(count));
  };
  run(with(500));
  malloc_trim(0);
  const int64_t before = resident_bytes();
  run(with(2000));
  malloc_trim(0);
  EXPECT_LE(static_cast<double>(resident_bytes()), 1.05 * static_cast<double>(before));
}

}  // namespace xrun::tensor_scope_test
