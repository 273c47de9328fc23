#pragma once
// The names that inputs of a prompt see, as one environment table.

#include <memory>
#include <string>
#include <vector>

#include "lua/prompt/prompt.h"

namespace xrun {

// Belongs to a LuaState (LuaState::service) and outlives the prompt, as functions typed there do.
struct PromptEnvironment {
  Prompt* open = nullptr;              // the prompt whose input is being evaluated
  std::shared_ptr<PromptNames> names;  // of the suspended frame
  LuaRef environment;                  // what inputs have as their globals; reads and writes fall
                                       // through to the tables below
  LuaRef own, verbs;                   // name -> value
};

// Returns the environment of a state, whose tables are made at first use.
PromptEnvironment& prompt_environment(LuaState& state);

// Pushes the value of a name and returns true; returns false, with nothing pushed, if the name is
// not defined.
bool push_environment_name(lua_State* L, PromptEnvironment& environment, const std::string& name);
// Sets the frame's name, else the prompt's own, to the value on top; pops it. Throws Error, with
// the value popped, if the frame has the name and a verb hides it.
void assign_environment_name(lua_State* L, PromptEnvironment& environment, const std::string& name);
// Returns every name that has a value, sorted, each once.
std::vector<std::string> environment_names(lua_State* L, PromptEnvironment& environment);

}  // namespace xrun
