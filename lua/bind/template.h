#pragma once
// A chat template as a Lua function of the recipe.

#include <memory>

#include "core/text/chat/chat_template.h"
#include "lua/state/worker_function.h"

namespace xrun {

// template(t, messages, kwargs): the function calls, in order,
//   t:special(text)        the template's own text, which may become special tokens
//   t:text(text)           data, which never does
//   t:train(text)          data that is trained
//   t:train_special(text)  the template's own text that is trained: the end of a turn
// Trained pieces that follow each other are one turn. Any number of threads may render at once;
// each has a state of its own. render() throws Error with the recipe's file and line.
std::shared_ptr<const ChatTemplate> make_lua_template(
    std::shared_ptr<const WorkerFunction> function);

}  // namespace xrun
