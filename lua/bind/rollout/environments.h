#pragma once
// Environments of policy:sample and run:sample, in Lua: they answer the policy's turns.

#include <lua.hpp>
#include <map>
#include <memory>
#include <string>

#include "core/rollout/rollout_sampler.h"
#include "lua/bind/rollout/reward_call.h"
#include "lua/bind/rollout/rollouts.h"
#include "lua/bind/rollout/sample_table.h"
#include "lua/state/args.h"
#include "lua/state/lua_state.h"

namespace xrun {

// Returns true if the options name an environment. Throws UsageError for max_turns, on_error or
// deadline_s without one.
bool has_environment(const Options& given);

// The options environment, max_turns, on_error and deadline_s. An environment is
//   a table     reply(self, turn) answers each turn; start(self, turn), if there is one, returns
//               the table that answers the conversation of this first turn
//   a function  runs as a coroutine, one for each conversation: it gets the first turn, each
//               coroutine.yield(messages, reward) returns the next one
// and answers with nil (the end), a text, a message or a list of messages, and a reward.
class LuaEnvironment {
 public:
  // Reads the options at argument i. Keeps a reference to `prompts`. Throws Error for a value of
  // the wrong type, and UsageError as has_environment does.
  LuaEnvironment(lua_State* L, int i, const Batch& prompts);

  // Returns the options for the sampler, which refer to this object; `reply` is empty without an
  // environment. Under on_error = "error" a failed reply throws Error that names prompt, sample and
  // turn.
  EnvironmentOptions options() const;

  // Returns the rollouts, without the aborted ones under on_error = "mask". Prints their number and
  // the first failure, once per call.
  std::shared_ptr<Rollouts> without_aborted(const std::shared_ptr<Rollouts>& rollouts) const;

 private:
  TurnReply reply(size_t conversation, const Rollout& so_far);
  void push_turn(const Rollout& so_far) const;
  std::string failure_text(const Rollout& so_far, const std::string& failure) const;

  lua_State* state_;
  const Batch& prompts_;
  RewardSettings settings_;
  EnvironmentOptions options_;
  std::unique_ptr<FieldTable> columns_;  // of the prompts; null without an environment
  LuaRef open_;                          // a function that opens a conversation
  std::map<size_t, LuaRef> answers_;     // by conversation, the function of a turn that it returned
  std::string first_failure_;
};

}  // namespace xrun
