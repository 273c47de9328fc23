// A paused run steps, repeats a step and continues, with an objective that changes meanwhile.

#include "lua/prompt/paused_run.h"

#include <csignal>

#include "core/train/models/policy.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/preview.h"
#include "lua/state/source_texts.h"
#include "tests/error_of.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::paused_run_test {
namespace {

class Steps : public SessionTest {
 protected:
  void open(const std::string& text) {
    paused_.reset();
    session_.reset();
    write_file_atomic("test.lua", text);
    RecipeOptions options;
    options.recipe = "test.lua";
    options.threads = 1;
    session_ = open_preview(std::move(options), console_);
    ASSERT_NE(session_->pause(), nullptr) << session_->no_loop_text();
    paused_ = std::make_unique<PausedRun>(session_->hooks());
  }
  ~Steps() override {
    paused_.reset();
    LuaState::clear_interrupt();
  }

  // Assigns the value of some code, in which the recipe's `policy` and `reference` are known.
  void assign(const std::string& name, const std::string& code) {
    lua_State* L = session_->state();
    const std::string text = "local policy, reference, cfg = ... return " + code;
    remember_source(L, "@input", text);
    ASSERT_EQ(luaL_loadbuffer(L, text.data(), text.size(), "@input"), 0) << lua_tostring(L, -1);
    for (const char* known : {"policy", "reference", "cfg"}) {
      ASSERT_TRUE(paused_->names().push(L, known));
    }
    protected_call(L, 3, 1);
    ASSERT_TRUE(paused_->names().set(L, name));
  }

  // Makes the recipe's `once` a function that interrupts at its first call.
  void set_once() {
    lua_State* L = session_->state();
    lua_pushboolean(L, 0);
    lua_pushcclosure(
        L,
        [](lua_State* L) {
          if (lua_toboolean(L, lua_upvalueindex(1)) == 0) {
            LuaState::interrupt_from_signal(SIGINT);
          }
          lua_pushboolean(L, 1);
          lua_replace(L, lua_upvalueindex(1));
          return 0;
        },
        1);
    ASSERT_TRUE(paused_->names().set(L, "once"));
  }

  double number(const std::string& name) {
    lua_State* L = session_->state();
    const StackGuard guard(L);
    return paused_->names().push(L, name) ? lua_tonumber(L, -1) : std::nan("");
  }

  static double value(const MetricTable& table, const std::string& name) {
    for (const auto& [known, number] : table.values) {
      if (known == name) return number;
    }
    ADD_FAILURE() << "no " << name;
    return std::nan("");
  }

  // Returns the metrics without those of a clock.
  static Metrics sure(const MetricTable& table) {
    Metrics kept;
    for (const auto& one : table.values) {
      if (!one.first.starts_with("perf/")) kept.push_back(one);
    }
    return kept;
  }

  std::string said_;
  std::shared_ptr<Console> console_ =
      std::make_shared<Console>([this](std::string_view text) { said_ += text; }, ConsoleTraits{});
  std::unique_ptr<Preview> session_;
  std::unique_ptr<PausedRun> paused_;
  const std::string loop_ =
      "for step, batch in run:steps(train, cfg.batch) do\n"
      "  run.state.bodies = (run.state.bodies or 0) + 1\n"
      "  run:log(adamw:step(batch, dpo))\nend\n";
};

TEST_F(Steps, AStepReturnsTheMetricsThatARunLogs) {
  ASSERT_EQ(run(head() + loop_, "r"), "");
  const auto lines = metrics("r");
  open(head() + loop_);
  for (size_t k = 0; k < lines.size(); ++k) {
    const Json wanted = parse_json(lines[k], "metrics");
    EXPECT_EQ(value(paused_->step(), "train/loss"), wanted.at("train/loss").as_double()) << k;
  }
  EXPECT_EQ(paused_->step().values.size(), 0u);
  EXPECT_TRUE(paused_->done());
}

TEST_F(Steps, AgainGivesTheSameBitsIfNothingChanged) {
  open(head() + loop_);
  paused_->step();
  const Metrics second = sure(paused_->step());
  MetricTable first;
  EXPECT_EQ(sure(paused_->again(&first)), second);
  EXPECT_EQ(sure(first), second);
  EXPECT_EQ(sure(paused_->again()), second);
  const Metrics third = sure(paused_->step());
  ASSERT_EQ(run(head() + loop_, "r"), "");
  EXPECT_EQ(Json(third[0].second), parse_json(metrics("r")[2], "metrics").at("train/loss"));
  const auto dir = session_->session().run->run().dir().path();
  EXPECT_EQ(metrics(dir.string()).size(), 3u);
}

TEST_F(Steps, AnotherObjectiveAppliesFromTheNextBodyOn) {
  open(head() + loop_);
  const double loss = value(paused_->step(), "train/loss");
  EXPECT_NEAR(loss, std::log(2.0), 1e-6);
  assign("dpo",
         "function(p) return (policy:logprob(p.chosen) - "
         "policy:logprob(p.rejected) * 0.5):mul(0):add(3) end");
  EXPECT_EQ(value(paused_->again(), "train/loss"), 3);
  EXPECT_EQ(paused_->pause().step, 1);
}

// A recipe need not give its run the optimizer.
TEST_F(Steps, AgainRestoresAnOptimizerThatIsNotSaved) {
  std::string text = head();
  const std::string given = ", adamw = adamw";
  ASSERT_NE(text.find(given), std::string::npos);
  text.erase(text.find(given), given.size());
  open(text + loop_);
  paused_->step();
  paused_->step();
  for (int i = 0; i < 3; ++i) paused_->again();
  const Metrics third = sure(paused_->step()), fourth = sure(paused_->step());
  paused_.reset();
  session_.reset();
  open(text + loop_);
  paused_->step();
  paused_->step();
  EXPECT_EQ(sure(paused_->step()), third);
  EXPECT_EQ(sure(paused_->step()), fourth);
}

TEST_F(Steps, AgainRestoresTheRunsState) {
  open(head() + loop_);
  paused_->step();
  paused_->again();
  paused_->again();
  EXPECT_EQ(dump_json(session_->session().run->read_state()), "{\"bodies\":1}");
}

// The call is repeated with the same objective, which reads the recipe's names at that time.
TEST_F(Steps, AfterAFailedObjectiveTheRecipeWaits) {
  open(head() + R"(
local side = "chosen"
local function nll(p) return -(policy:logprob(p[side])) * 0 + 5 end
for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, nll)) end
)");
  paused_->step();
  assign("side", "'choosen'");
  EXPECT_TRUE(throws<LuaError>("choosen", [&] { paused_->step(); }));
  ASSERT_NE(paused_->pause().failure, nullptr);
  EXPECT_TRUE(throws<Error>("the body of step 1 waits where a call failed, at test.lua:",
                            [&] { paused_->again(); }));
  EXPECT_EQ(paused_->pause().step, 1);
  EXPECT_EQ(paused_->batch()->step(), 1);
  EXPECT_FALSE(paused_->done());
  assign("side", "'chosen'");
  EXPECT_EQ(value(paused_->step(), "train/loss"), 5);
  EXPECT_EQ(paused_->pause().failure, nullptr);
  EXPECT_EQ(paused_->pause().step, 2);
}

TEST_F(Steps, ContinueOfOneStepRunsAfterAFailure) {
  open(head() + R"(
local side = "choosen"
local function nll(p) return -(policy:logprob(p[side])) * 0 + 5 end
for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, nll)) end
)");
  EXPECT_TRUE(throws<LuaError>("choosen", [&] { paused_->step(); }));
  assign("side", "'chosen'");
  EXPECT_EQ(value(paused_->go_on(1), "train/loss"), 5);
  EXPECT_FALSE(paused_->stopped());
  EXPECT_TRUE(has(said_, "step 1/4"));  // step() is quiet, continue() is not
  EXPECT_EQ(paused_->pause().step, 1);
}

TEST_F(Steps, AnInterruptionLeavesTheBodyInPosition) {
  open(head() + "local turns = 0\nfor step, batch in run:steps(train, cfg.batch) do\n" +
       "  if step == 1 then for i = 1, 1e6 do turns = i end end\n" +
       "  run:log(adamw:step(batch, dpo))\nend\n");
  paused_->step();
  LuaState::interrupt_from_signal(SIGINT);
  EXPECT_EQ(signal_of([&] { paused_->step(); }), SIGINT);
  EXPECT_LT(number("turns"), 1e6);
  ASSERT_NE(paused_->pause().failure, nullptr);
  EXPECT_NE(value(paused_->step(), "train/loss"), 0);
  EXPECT_EQ(number("turns"), 1e6);
}

// A function of C calls the comparator, and no coroutine can be suspended inside it.
TEST_F(Steps, AnInterruptionInACallbackOfTheLibraryWaitsForItsEnd) {
  for (const std::string call : {"table.sort(list, function(a, b) once() return a < b end)",
                                 "string.gsub('abc', '.', function() once() end)"}) {
    open(head() + "local list = { 3, 1, 2 }\nlocal once = function() end\nlocal after = 0\n" +
         "for step, batch in run:steps(train, cfg.batch) do\n  " + call + "\n" +
         "  for i = 1, 1e5 do after = i end\n  run:log(adamw:step(batch, dpo))\nend\n");
    paused_->step();
    set_once();
    EXPECT_EQ(signal_of([&] { paused_->step(); }), SIGINT) << call;
    ASSERT_FALSE(paused_->done()) << call;
    ASSERT_NE(paused_->pause().failure, nullptr);
    EXPECT_LT(number("after"), 1e5);
    EXPECT_NE(value(paused_->step(), "train/loss"), 0);
    EXPECT_EQ(number("after"), 1e5);
  }
}

TEST_F(Steps, SlowAnInterruptionInACallbackThatNeverEndsEndsTheRecipe) {
  open(head() + "local list = { 3, 1, 2 }\nlocal once = function() end\n" +
       "for step, batch in run:steps(train, cfg.batch) do\n" +
       "  if step == 1 then table.sort(list, function() once() while true do end end) end\n" +
       "  run:log(adamw:step(batch, dpo))\nend\n");
  paused_->step();
  set_once();
  EXPECT_EQ(signal_of([&] { paused_->step(); }), SIGINT);
  EXPECT_TRUE(paused_->done());
}

TEST_F(Steps, AnErrorInTheBodyEndsTheRecipeAndKeepsNames) {
  open(head() + "for step, batch in run:steps(train, cfg.batch) do local x = step.y.z end\n");
  EXPECT_TRUE(throws<LuaError>("attempt to index local 'step'", [&] { paused_->step(); }));
  EXPECT_TRUE(paused_->done());
  EXPECT_TRUE(throws<Error>("test.lua was ended by an error; ", [&] { paused_->step(); }));
  EXPECT_TRUE(paused_->names().push(session_->state(), "policy"));
  lua_pop(session_->state(), 1);
}

TEST_F(Steps, AFailedCallAfterTheLoopWaitsOutsideBodies) {
  open(head() + "local side = 'chosen'\n" + loop_ +
       "run:log(run:evaluate(valid, function(p) return policy:logprob(p[side]) end))\n");
  paused_->go_on(4);
  EXPECT_EQ(paused_->batch()->step(), 3);
  assign("side", "'choosen'");
  EXPECT_TRUE(throws<LuaError>("choosen", [&] { paused_->step(); }));
  ASSERT_NE(paused_->pause().failure, nullptr);
  EXPECT_EQ(paused_->batch()->step(), 3);
  EXPECT_TRUE(
      throws<Error>("has left its loop and waits where a call failed, at test.lua:22; "
                    "step() continues from there",
                    [&] { paused_->again(); }));
  assign("side", "'chosen'");
  EXPECT_EQ(paused_->step().values.size(), 0u);
  EXPECT_TRUE(paused_->done());
}

TEST_F(Steps, ContinueRunsSeveralAndAgainTheLast) {
  open(head() + loop_);
  const Metrics third = sure(paused_->go_on(3));
  EXPECT_EQ(paused_->pause().step, 3);
  EXPECT_EQ(sure(paused_->again()), third);
}

TEST_F(Steps, TheCurrentBatchIsTheNextThenTheLast) {
  open(head() +
       "for step, batch in run:steps(train, cfg.batch) do\n"
       "  batch.marked = batch.row * 0 + 7\n  run:log(adamw:step(batch, dpo))\nend\n");
  EXPECT_EQ(paused_->batch()->step(), 0);
  EXPECT_EQ(paused_->batch(), paused_->batch());
  EXPECT_FALSE(session_->session().models.policies().front()->loaded());
  paused_->step();
  EXPECT_EQ(paused_->batch()->step(), 0);
  EXPECT_EQ(paused_->batch()->field("marked").max().item().toDouble(), 7);
  paused_->step();
  EXPECT_EQ(paused_->batch()->step(), 1);
}

}  // namespace
}  // namespace xrun::paused_run_test
