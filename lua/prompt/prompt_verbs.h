#pragma once
// The verbs of a prompt over a paused recipe: step, again, batch, continue, compare, gradcheck, rows;
// and :batch and :reload.

#include <functional>
#include <lua.hpp>
#include <memory>

#include "lua/prompt/prompt.h"
#include "lua/prompt/paused_run.h"

namespace xrun {

// Registers every doc string: of the bindings, the prompt's verbs and its commands.
void register_docs();

struct PromptVerb {
  const char* name;
  std::vector<LuaParameter> parameters;
  std::vector<LuaResult> results;
  const char* doc;
  lua_CFunction function;
};

// Adds them to a prompt over the recipe of a paused run, makes the names of its pause those of the prompt
// and keeps the run's log of inputs and of names that change. A verb that is called after the
// paused's end is an error.
//   reload  begins the recipe again from its file and pauses at the same step; empty: it cannot
void add_step_verbs(Prompt& prompt, const std::shared_ptr<PausedRun>& paused,
                    std::function<std::string()> reload = {});

}  // namespace xrun
