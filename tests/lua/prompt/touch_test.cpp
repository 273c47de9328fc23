// Which inputs change a run, by what is written in them and by what run.json then says.

#include "lua/prompt/touch.h"

#include "tests/lua/prompt/verbs_fixture.h"

namespace xrun::touch_test {
namespace {

class Touch : public Verbs {
 protected:
  bool touches(const std::string& chunk) { return chunk_touch(*prompt_, chunk).touches; }
  Json record() { return session_->session().run->run().dir().record(); }
  bool touched() { return record().find("touched") != nullptr; }
  std::string log() { return read_file(session_->session().run->run().dir().path() / "log.txt"); }
};

TEST_F(Touch, LookingIsNone) {
  open(head() + "local opts = { scale = 1 }\n" + loop_);
  for (const char* look :
       {"cfg.beta",
        "opts.scale == 1",
        "x = cfg.beta * 2",
        "local a, b = 1, { n = 2, [3] = 4 }",
        "batch()",
        ":batch 3",
        "rows{ by = 'margin', n = 3, of = valid }",
        "compare(dpo, hinge)",
        "gradcheck(function(p) return -policy:logprob(p.chosen) end)",
        "m = step() print(m.loss)",
        "policy:logprob(batch()):mean():item()",
        "for k, v in pairs(opts) do print(k, v) end",
        "hinge = function(p) return (1 - cfg.beta * policy:logprob(p.chosen)):relu() end",
        "xrun.ones(3, 3):matmul(xrun.arange(0, 3)):sum()",
        "string.format('%.3f', math.exp(1))",
        "('x'):rep(3)",
        "run:evaluate(valid, dpo)",
        ":help",
        ":doc optim.lr",
        "#train",
        "t = { f = function(x) return x end, n = 1 }",
        "if x == 1 then y = 2 end",
        ":ops sum"}) {
    EXPECT_FALSE(touches(look)) << look;
  }
}

TEST_F(Touch, WhatMayChangeTheRunIsOne) {
  open(head() + "local opts = { scale = 1 }\n" + loop_);
  for (const char* change : {"cfg.beta = 0.9",
                             "opts['scale'] = 5",
                             "run.state.x = 1",
                             "a, opts.scale = 1, 2",
                             "opts.scale, a = 1, 2",
                             "function opts.f() end",
                             "table.insert(opts, 1)",
                             "rawset(opts, 'scale', 2)",
                             "policy:logprob(batch()):mul_(2)",
                             "xrun.randn(3)",
                             "math.random()",
                             "adamw:step(batch(), dpo)",
                             "run:log{ x = 1 }",
                             "run:stop()",
                             ":time cfg.beta = 1",
                             "t = { f = function() cfg.beta = 1 end }",
                             "dpo(1)",
                             "opts.f()",
                             "opts.list[1](2)",
                             "f(1)(2)",
                             "setmetatable(opts, {})",
                             "require 'x'",
                             "compare(function(p) cfg.beta = 2 return dpo(p) end)",
                             "xrun.no_grad(change)",
                             "for x in change do end",
                             "xrun.ones(3):dropout(0.5, true)",
                             "batch().reward = x",
                             "debug.setlocal(1, 1, 1)"}) {
    EXPECT_TRUE(touches(change)) << change;
  }
  say("print = dpo");
  EXPECT_TRUE(touches("print()"));
}

TEST_F(Touch, AFieldThatIsAssignedIsNotedWithItsValues) {
  open(head() + "local opts = { scale = 1, deep = { n = 2 } }\n" + loop_);
  say("step()");
  say("cfg.beta");
  EXPECT_FALSE(touched());
  say("cfg.beta = 0.9");
  EXPECT_TRUE(touched());
  EXPECT_EQ(dump_json(record().at("touched_steps")), "[1]");
  EXPECT_TRUE(has(log(), "cfg.beta = 0.9\ncfg.beta was 0.1\ncfg.beta is now 0.9"));
  say("step()");
  say("opts.deep.n = nil");
  EXPECT_TRUE(has(log(), "opts.deep.n was 2\nopts.deep.n is now nothing"));
  say("run.state.patience = 3");
  EXPECT_TRUE(has(log(), "run.state.patience was nothing\nrun.state.patience is now 3"));
  EXPECT_EQ(dump_json(record().at("touched_steps")), "[1,2]");
}

// What an error ends has changed what stood before it.
TEST_F(Touch, AnInputThatFailedCountsToo) {
  open(head() + loop_);
  say("step()");
  say("cfg.beta = 0.9 error 'no'");
  EXPECT_TRUE(touched());
}

// A function that was typed into the run reads the prompt's own names.
TEST_F(Touch, ANameOfThePromptCountsInARunThatIsTouched) {
  open(head() + loop_);
  say("step()");
  say("weight = 2");
  EXPECT_FALSE(touched());
  say("dpo = function(p) return weight * -policy:logprob(p.chosen) end");
  say("step()");
  EXPECT_EQ(dump_json(record().at("touched_steps")), "[1]");
  say("weight = 3");
  EXPECT_EQ(dump_json(record().at("touched_steps")), "[1,2]");
}

}  // namespace
}  // namespace xrun::touch_test
