#pragma once
// A prompt at a terminal, or over a script: reads inputs, shows answers, until it is left.

#include <string>

#include "lua/prompt/prompt.h"

namespace xrun {

// Reads standard input until the prompt is left or the input ends, printing answers through the
// prompt's console. On a terminal an editor with the history of history_file() asks for each input
// behind `greeting`; elsewhere (a pipe, TERM=dumb, output to a file) plain lines are read.
// Ctrl-C stops what an input computes, or forgets an input, and the prompt stays; the signals'
// manner is that of a prompt in here and what it was before afterwards. Returns whether an input
// failed. Throws Interrupted when SIGTERM or SIGHUP came.
bool run_prompt(Prompt& prompt, const std::string& greeting);

// `xrun repl < FILE`: the same for a descriptor that no one types into; positions in errors are
// lines of `name`.
bool run_script(Prompt& prompt, int fd, const std::string& name);

}  // namespace xrun
