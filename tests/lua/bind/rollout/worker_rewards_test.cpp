// Rewards on worker states: the same numbers, files and errors as in the recipe's state.

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "lua/state/args.h"
#include "lua/state/builtin_modules.h"
#include "lua/state/worker_calls.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::worker_rewards_test {

// A state with the modules, and the function that a chunk returned.
struct Loaded {
  explicit Loaded(const std::string& code) {
    lua_State* L = state;
    lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
    state.push_module(L);
    lua_setfield(L, -2, "xrun");
    open_builtin_modules(state);
    lua_settop(L, 0);
    XRUN_CHECK(luaL_loadstring(L, code.c_str()) == 0, "{}", lua_tostring(L, -1));
    protected_call(L, 0, 1);
    function = LuaRef(L, -1);
    lua_settop(L, 0);
  }
  // Calls the function with the number of each unit. Returns the results by unit, or nothing if
  // workers refuse the function.
  std::vector<double> call(int64_t count = 20) {
    std::vector<double> results(static_cast<size_t>(count));
    std::mutex mutex;
    const bool ran = call_on_workers(state, function, count,
                                     [&](lua_State* L, const LuaRef& loaded, int64_t unit) {
                                       EXPECT_NE(L, state.get());
                                       {
                                         const std::lock_guard lock(mutex);
                                         states.insert(L);
                                       }
                                       const StackGuard guard(L);
                                       loaded.push(L);
                                       push(L, unit);
                                       try {
                                         protected_call(L, 1, 1);
                                       } catch (const LuaError&) {
                                         return stops;
                                       }
                                       results[static_cast<size_t>(unit)] = lua_tonumber(L, -1);
                                       return false;
                                     });
    return ran ? results : std::vector<double>{};
  }

  LuaState state;
  LuaRef function;
  std::set<lua_State*> states;
  bool stops = false;
};

std::string with_module(const std::string& code) {
  return "local xrun = package.loaded.xrun local rewards = xrun.rewards " + code;
}

class RewardWorkers : public SessionTest {
 protected:
  RewardWorkers() : threads_(at::get_num_threads()) {}
  ~RewardWorkers() override { at::set_num_threads(threads_); }
  int threads_;
};

TEST_F(RewardWorkers, GiveEachUnitItsResultOnAnyNumberOfThreads) {
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    Loaded loaded("return function(i) local n = 0 for k = 1, 20000 do n = n + i end return n end");
    const std::vector<double> results = loaded.call();
    ASSERT_EQ(results.size(), 20u);
    for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], 20000.0 * double(i));
    EXPECT_LE(loaded.states.size(), static_cast<size_t>(threads));
    EXPECT_EQ(loaded.call(), results) << "the states are used again";
  }
}

TEST_F(RewardWorkers, CallUnitsWhileFurtherOnesBecomeKnown) {
  Loaded loaded("return function(i) return i end");
  const auto nothing = [](lua_State*, const LuaRef&, int64_t) { return false; };
  const auto calls = WorkerCalls::begin(loaded.state, loaded.function, nothing, /*threads=*/3);
  ASSERT_NE(calls, nullptr);
  calls->add(4);
  for (int wait = 0; wait < 1000 && calls->called() < 4; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(calls->called(), 4) << "before finish()";
  EXPECT_EQ(WorkerCalls::begin(loaded.state, loaded.function, nothing, 1), nullptr)
      << "a second user of the states";
  calls->add(3);
  EXPECT_TRUE(calls->finish());
  EXPECT_EQ(calls->called(), 7);
}

TEST_F(RewardWorkers, TheModulesInLuaAreThere) {
  const std::string use = "return function(i) return rewards.number('it is ' .. i, i) end";
  EXPECT_EQ(Loaded(with_module(use)).call(2), (std::vector<double>{1, 1}));
  const std::string whole = "return function(i) return xrun.rewards.exact(i .. '', i) end";
  EXPECT_EQ(Loaded(with_module(whole)).call(2), (std::vector<double>{1, 1}));
  EXPECT_EQ(
      Loaded("return function(i) return require('xrun.rewards').exact(i .. '', i) end").call(1),
      std::vector<double>{1});
  EXPECT_EQ(Loaded("return function(i) local n = 0 "
                   "for _, v in require('xrun').sorted_pairs { 1, 2 } do n = 10 * n + v end "
                   "return n end")
                .call(1),
            std::vector<double>{12});
}

TEST_F(RewardWorkers, RefuseWhatTheyLackEvenInsidePcall) {
  for (const char* body :
       {"print(i)", "os.time()", "undefined = i", "math.random()", "('x'):mine()", "string.mine()",
        "require('other')", "tostring({})", "xrun.policy()", "xrun.rewards.mine()",
        "xrun.rewards.mine = i", "pcall(function() return io.read() end)",
        "for k in pairs { [{}] = 1, [{}] = 2 } do end"}) {
    Loaded loaded(with_module(std::string("return function(i) ") + body + " return 1 end"));
    EXPECT_TRUE(loaded.call(3).empty()) << body;
    EXPECT_FALSE(loaded.states.empty()) << body;
    loaded.states.clear();
    EXPECT_TRUE(loaded.call(3).empty()) << body;
    EXPECT_TRUE(loaded.states.empty()) << "a second batch does not try: " << body;
  }
  Loaded plain(with_module("return function(i) return i end"));
  EXPECT_EQ(plain.call(2), (std::vector<double>{0, 1}));
}

TEST_F(RewardWorkers, RefuseOtherUpvaluesAndChangedModules) {
  for (const char* code :
       {"local n = 1 return function(i) return n end", "return string.rep",
        "xrun.rewards.exact = function() return 7 end return function(i) return xrun.rewards end",
        "rewards.exact = function() return 7 end return function(i) return rewards.exact() end"}) {
    Loaded loaded(with_module(code));
    EXPECT_TRUE(loaded.call(1).empty()) << code;
    EXPECT_TRUE(loaded.states.empty()) << code;
  }
}

TEST_F(RewardWorkers, CallNothingBehindAUnitThatEndsTheBatch) {
  at::set_num_threads(1);
  Loaded loaded("return function(i) if i == 2 then error('no') end return 1 end");
  loaded.stops = true;
  EXPECT_EQ(loaded.call(5), (std::vector<double>{1, 1, 0, 0, 0}));
}

// ---- in a recipe

class RecipeRewards : public SessionTest {
 protected:
  RecipeRewards() {
    std::string rows;
    for (int i = 0; i < 8; ++i) {
      rows += fmt::format("{{\"prompt\": \"say {} ?\", \"digit\": {}}}\n", i, i % 4);
    }
    write_file_atomic("prompts.jsonl", rows);
  }
  // One body that scores 12 samples; `upvalue` keeps the reward in the recipe's state.
  std::string score(const std::string& reward, bool upvalue, int threads, const std::string& dir,
                    const std::string& method = "score") {
    std::filesystem::remove_all(dir);
    return run(R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "prompts.jsonl", keep = { "digit" } } },
  template = "chatml", optim = { lr = 1e-2 }, batch = { prompts = 4, max_tokens = 600 }, steps = 1,
  sampling = { samples = 3, max_tokens = 6 }, on_error = "error",
}
local policy = xrun.policy(cfg.model)
local data = xrun.prompts(cfg.data, policy)
local outside = 1
local function reward(s)
  )" + std::string(upvalue ? "local _ = outside" : "local _ = 1") +
                   "\n  " + reward + R"(
end
local run = xrun.run(cfg, { policy = policy, adamw = xrun.adamw(policy, cfg.optim) })
for step, prompts in run:steps(data, cfg.batch) do
  policy:sample(prompts, cfg.sampling):)" +
                   method + R"((reward, { on_error = cfg.on_error, deadline_s = 0.1 })
end
)",
               dir, {.sets = sets_, .threads = threads});
  }
  // The reward gives the same record and the same error in workers of 1 and 3 threads and in the
  // recipe's state. Returns the error.
  std::string expect_same(const std::string& reward, const std::string& method = "score") {
    const auto error = score(reward, true, 1, "own", method);
    for (const int threads : {1, 3}) {
      EXPECT_EQ(score(reward, false, threads, "worker", method), error) << reward;
      if (error.empty()) {
        EXPECT_EQ(read_file("worker/rollouts/step_0000000.jsonl.zst"),
                  read_file("own/rollouts/step_0000000.jsonl.zst"))
            << reward;
      }
    }
    at::set_num_threads(1);
    return error;
  }
  std::vector<std::string> sets_;
};

TEST_F(RecipeRewards, AreTheSameInEitherState) {
  EXPECT_EQ(
      expect_same("return #s.text + s.digit + s.index / 7, { a = s.ids[1], b = #s.prompt_ids }"),
      "");
  EXPECT_EQ(expect_same("return xrun.rewards.number(s.text, s.digit)"), "");
  EXPECT_EQ(expect_same("print(s.index) return s.index"), "");
  EXPECT_EQ(expect_same("local r = {} for i, one in ipairs(s) do r[i] = one.digit + i end return r",
                        "score_groups"),
            "");
}

TEST_F(RecipeRewards, SlowFollowTheSamePolicyForFailures) {
  const char* const failures[] = {"return nil",
                                  "return '1'",
                                  "return 0 / 0",
                                  "error('no')",
                                  "return s.none.x",
                                  "return 1, { b = 0 / 0, a = 1 / 0 }",
                                  "return 1, 2",
                                  "if s.index == 1 then while true do pcall(function() while true "
                                  "do end end) end end return 1"};
  for (const std::string reward : failures) {
    has(expect_same(reward), "failed");
  }
  has(expect_same("return { 1 }", "score_groups"), "wanted a list of 3 numbers");
  for (const char* policy : {"mask", "zero"}) {
    sets_ = {fmt::format("on_error={}", policy)};
    EXPECT_EQ(expect_same("if s.index == 1 then error('no') end return s.digit"), "");
    has(output_, "4 of 12 rewards failed");
    has(output_, "the reward of sample 1 failed: test.lua:");
  }
}

}  // namespace xrun::worker_rewards_test
