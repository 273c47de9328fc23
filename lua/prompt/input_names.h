#pragma once
// The names that inputs of a prompt see, as one table of globals.

#include <memory>
#include <string>
#include <vector>

#include "lua/prompt/prompt.h"

namespace xrun {

// Belongs to a LuaState (LuaState::service) and outlives the prompt, as functions typed there do.
struct InputNames {
  Prompt* open = nullptr;              // the prompt whose input is being evaluated
  std::shared_ptr<PromptNames> frame;  // of the suspended frame
  LuaRef globals;                      // an input's table of globals; reads and writes fall through
                                       // to the tables below
  LuaRef own, verbs;                   // name -> value
};

// Returns the names of a state, whose tables are made at first use.
InputNames& input_names(LuaState& state);

// Pushes the value of a name and returns true; returns false, with nothing pushed, if the name is
// not defined.
bool push_input_name(lua_State* L, InputNames& input, const std::string& name);
// Sets the frame's name, else the prompt's own, to the value on top; pops it. Throws Error, with
// the value popped, if the frame has the name and a verb hides it.
void assign_input_name(lua_State* L, InputNames& input, const std::string& name);
// Returns every name that has a value, sorted, each once.
std::vector<std::string> all_input_names(lua_State* L, InputNames& input);

}  // namespace xrun
