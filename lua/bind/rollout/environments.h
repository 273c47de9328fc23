#pragma once
// Lua environments for policy:sample and run:sample: they answer the policy's turns.

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
  // Reads the options at argument i. Refers to the batch of prompts. Throws Error for options that
  // do not fit.
  LuaEnvironment(lua_State* L, int i, const Batch& prompts);

  // Without an environment its reply is empty. Refers to this object. Throws, in a reply, Error
  // that names prompt, sample and turn under on_error = "error".
  EnvironmentOptions options() const;

  // Returns the rollouts, under on_error = "mask" without aborted ones. Reports those once a call.
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
  LuaRef open_;                          // makes the function that answers one conversation
  std::map<size_t, LuaRef> answers_;     // those functions, by conversation
  std::string first_failure_;
};

}  // namespace xrun
