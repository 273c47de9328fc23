// Steps of a paused recipe: forth, back and again, with an objective that is changed meanwhile.

#include "lua/prompt/stepper.h"

#include <csignal>

#include "core/train/policy.h"
#include "lua/prompt/look.h"
#include "lua/bind/run_loop.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::stepper_test {
namespace {

class Steps : public SessionTest {
 protected:
  void look(const std::string& text) {
    stepper_.reset();
    session_.reset();
    write_file_atomic("test.lua", text);
    RecipeOptions options;
    options.recipe = "test.lua";
    options.threads = 1;
    session_ = start_look(std::move(options), console_);
    ASSERT_NE(session_->pause(), nullptr) << session_->no_loop_text();
    stepper_ = std::make_unique<Stepper>(session_->recipe());
  }
  ~Steps() override {
    stepper_.reset();
    LuaState::clear_interrupt();
  }

  // Assigns the value of some code, in which the recipe's `policy` and `reference` are known.
  void assign(const std::string& name, const std::string& code) {
    lua_State* L = session_->state();
    const std::string text = "local policy, reference, cfg = ... return " + code;
    remember_source(L, "@input", text);
    ASSERT_EQ(luaL_loadbuffer(L, text.data(), text.size(), "@input"), 0) << lua_tostring(L, -1);
    for (const char* known : {"policy", "reference", "cfg"}) {
      ASSERT_TRUE(stepper_->names().push(L, known));
    }
    protected_call(L, 3, 1);
    ASSERT_TRUE(stepper_->names().set(L, name));
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
    ASSERT_TRUE(stepper_->names().set(L, "once"));
  }

  double number(const std::string& name) {
    lua_State* L = session_->state();
    const StackGuard guard(L);
    return stepper_->names().push(L, name) ? lua_tonumber(L, -1) : std::nan("");
  }

  static double value(const MetricTable& table, const std::string& name) {
    for (const auto& [known, number] : table.values) {
      if (known == name) return number;
    }
    ADD_FAILURE() << "no " << name;
    return std::nan("");
  }

  // Without what a clock says.
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
  std::unique_ptr<LookSession> session_;
  std::unique_ptr<Stepper> stepper_;
  const std::string loop_ =
      "for step, batch in run:steps(train, cfg.batch) do\n"
      "  run.state.bodies = (run.state.bodies or 0) + 1\n"
      "  run:log(adamw:step(batch, dpo))\nend\n";
};

TEST_F(Steps, AStepGivesWhatARunLogs) {
  ASSERT_EQ(run(head() + loop_, "r"), "");
  const auto lines = metrics("r");
  look(head() + loop_);
  for (size_t k = 0; k < lines.size(); ++k) {
    const Json wanted = parse_json(lines[k], "metrics");
    EXPECT_EQ(value(stepper_->step(), "train/loss"), wanted.at("train/loss").as_double()) << k;
  }
  EXPECT_EQ(stepper_->step().values.size(), 0u);
  EXPECT_TRUE(stepper_->done());
}

TEST_F(Steps, AgainGivesTheSameBitsWhereNothingChanged) {
  look(head() + loop_);
  stepper_->step();
  const Metrics second = sure(stepper_->step());
  MetricTable first;
  EXPECT_EQ(sure(stepper_->again(&first)), second);
  EXPECT_EQ(sure(first), second);
  EXPECT_EQ(sure(stepper_->again()), second);
  const Metrics third = sure(stepper_->step());
  ASSERT_EQ(run(head() + loop_, "r"), "");
  EXPECT_EQ(Json(third[0].second), parse_json(metrics("r")[2], "metrics").at("train/loss"));
  const auto dir = session_->session().run->run().dir().path();
  EXPECT_EQ(metrics(dir.string()).size(), 3u);
}

TEST_F(Steps, AnotherObjectiveAppliesFromTheNextBodyOn) {
  look(head() + loop_);
  const double loss = value(stepper_->step(), "train/loss");
  EXPECT_NEAR(loss, std::log(2.0), 1e-6);
  assign("dpo",
         "function(p) return (policy:logprob(p.chosen) - "
         "policy:logprob(p.rejected) * 0.5):mul(0):add(3) end");
  EXPECT_EQ(value(stepper_->again(), "train/loss"), 3);
  EXPECT_EQ(stepper_->pause().step, 1);
  const Json& record = session_->session().run->run().dir().record();
  EXPECT_TRUE(record.at("touched").as_bool());
  EXPECT_EQ(dump_json(record.at("touched_steps")), "[0]");
}

// A recipe need not give its run the optimizer.
TEST_F(Steps, AgainPutsBackAnOptimizerThatIsNotSaved) {
  std::string text = head();
  const std::string given = ", adamw = adamw";
  ASSERT_NE(text.find(given), std::string::npos);
  text.erase(text.find(given), given.size());
  look(text + loop_);
  stepper_->step();
  stepper_->step();
  for (int i = 0; i < 3; ++i) stepper_->again();
  const Metrics third = sure(stepper_->step()), fourth = sure(stepper_->step());
  stepper_.reset();
  session_.reset();
  look(text + loop_);
  stepper_->step();
  stepper_->step();
  EXPECT_EQ(sure(stepper_->step()), third);
  EXPECT_EQ(sure(stepper_->step()), fourth);
}

TEST_F(Steps, TheRunsStateIsPutBack) {
  look(head() + loop_);
  stepper_->step();
  stepper_->again();
  stepper_->again();
  EXPECT_EQ(dump_json(session_->session().run->read_state()), "{\"bodies\":1}");
}

TEST_F(Steps, AnObjectiveThatFailsWaitsToBeMended) {
  look(head() + loop_);
  stepper_->step();
  assign("dpo", "function(p) return policy:logprob(p.choosen) end");
  try {
    stepper_->step();
    FAIL();
  } catch (const LuaError& error) {
    EXPECT_TRUE(has(error.what(), "choosen"));
  }
  ASSERT_NE(stepper_->pause().failure, nullptr);
  EXPECT_THROW(stepper_->again(), Error);
  EXPECT_EQ(stepper_->pause().step, 1);
  EXPECT_EQ(stepper_->batch()->step(), 1);
  EXPECT_FALSE(stepper_->done());
  assign("dpo", "function(p) return -(policy:logprob(p.chosen)) * 0 + 5 end");
  EXPECT_EQ(value(stepper_->step(), "train/loss"), 5);
  EXPECT_EQ(stepper_->pause().failure, nullptr);
  EXPECT_EQ(stepper_->pause().step, 2);
}

TEST_F(Steps, AnInterruptionLeavesTheBodyWhereItIs) {
  look(head() + "local turns = 0\nfor step, batch in run:steps(train, cfg.batch) do\n" +
       "  if step == 1 then for i = 1, 1e6 do turns = i end end\n" +
       "  run:log(adamw:step(batch, dpo))\nend\n");
  stepper_->step();
  LuaState::interrupt_from_signal(SIGINT);
  EXPECT_THROW(stepper_->step(), Interrupted);
  EXPECT_LT(number("turns"), 1e6);
  ASSERT_NE(stepper_->pause().failure, nullptr);
  EXPECT_NE(value(stepper_->step(), "train/loss"), 0);
  EXPECT_EQ(number("turns"), 1e6);
}

// A comparator is called by a function of C, in which no coroutine can be suspended.
TEST_F(Steps, AnInterruptionInACallbackOfTheLibraryWaitsForItsEnd) {
  for (const std::string call : {"table.sort(list, function(a, b) once() return a < b end)",
                                 "string.gsub('abc', '.', function() once() end)"}) {
    look(head() + "local list = { 3, 1, 2 }\nlocal once = function() end\nlocal after = 0\n" +
         "for step, batch in run:steps(train, cfg.batch) do\n  " + call + "\n" +
         "  for i = 1, 1e5 do after = i end\n  run:log(adamw:step(batch, dpo))\nend\n");
    stepper_->step();
    set_once();
    EXPECT_THROW(stepper_->step(), Interrupted) << call;
    ASSERT_FALSE(stepper_->done()) << call;
    ASSERT_NE(stepper_->pause().failure, nullptr);
    EXPECT_LT(number("after"), 1e5);
    EXPECT_NE(value(stepper_->step(), "train/loss"), 0);
    EXPECT_EQ(number("after"), 1e5);
  }
}

TEST_F(Steps, SlowAnInterruptionInACallbackThatNeverEndsEndsTheRecipe) {
  look(head() + "local list = { 3, 1, 2 }\nlocal once = function() end\n" +
       "for step, batch in run:steps(train, cfg.batch) do\n" +
       "  if step == 1 then table.sort(list, function() once() while true do end end) end\n" +
       "  run:log(adamw:step(batch, dpo))\nend\n");
  stepper_->step();
  set_once();
  EXPECT_THROW(stepper_->step(), Interrupted);
  EXPECT_TRUE(stepper_->done());
}

TEST_F(Steps, AnErrorOfTheBodysOwnEndsTheRecipeAndKeepsNames) {
  look(head() + "for step, batch in run:steps(train, cfg.batch) do local x = step.y.z end\n");
  EXPECT_THROW(stepper_->step(), LuaError);
  EXPECT_TRUE(stepper_->done());
  EXPECT_THROW(stepper_->step(), Error);
  EXPECT_TRUE(stepper_->names().push(session_->state(), "policy"));
  lua_pop(session_->state(), 1);
}

TEST_F(Steps, ACallBehindTheLoopWaitsOutsideOfBodies) {
  look(head() + loop_ + "run:log(run:evaluate(valid, dpo))\n");
  stepper_->go_on(4);
  EXPECT_EQ(stepper_->batch()->step(), 3);
  assign("dpo", "function(p) return policy:logprob(p.choosen) end");
  EXPECT_THROW(stepper_->step(), LuaError);
  ASSERT_NE(stepper_->pause().failure, nullptr);
  EXPECT_EQ(stepper_->batch()->step(), 3);
  try {
    stepper_->again();
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(),
                    "has left its loop and waits where a call failed, at input:1; "
                    "step() goes on from there"));
  }
  assign("dpo", "function(p) return policy:logprob(p.chosen) end");
  EXPECT_EQ(stepper_->step().values.size(), 0u);
  EXPECT_TRUE(stepper_->done());
}

TEST_F(Steps, ContinueRunsSeveralAndAgainTheLast) {
  look(head() + loop_);
  const Metrics third = sure(stepper_->go_on(3));
  EXPECT_EQ(stepper_->pause().step, 3);
  EXPECT_EQ(sure(stepper_->again()), third);
}

TEST_F(Steps, TheBatchInHandIsTheNextThenTheLast) {
  look(head() +
       "for step, batch in run:steps(train, cfg.batch) do\n"
       "  batch.marked = batch.row * 0 + 7\n  run:log(adamw:step(batch, dpo))\nend\n");
  EXPECT_EQ(stepper_->batch()->step(), 0);
  EXPECT_EQ(stepper_->batch(), stepper_->batch());
  EXPECT_FALSE(session_->policy()->loaded());
  stepper_->step();
  EXPECT_EQ(stepper_->batch()->step(), 0);
  EXPECT_EQ(stepper_->batch()->field("marked").max().item().toDouble(), 7);
  stepper_->step();
  EXPECT_EQ(stepper_->batch()->step(), 1);
}

}  // namespace
}  // namespace xrun::stepper_test
