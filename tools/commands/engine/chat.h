#pragma once
// A conversation on a terminal: answers are streamed and the history is kept.

#include <string>

#include "core/rollout/text_sampler.h"
#include "tools/commands/engine/chat_prompt.h"

namespace xrun {

struct ChatSettings {
  Model& model;
  const Tokenizer& tokenizer;
  ChatPrompt& prompt;
  TextOptions options;  // on_text and the prompts' names are the conversation's own
  std::string name;     // of the model, for the first line
};

// Reads messages from standard input and writes answers to standard output until /quit or the end
// of the input. Lines that begin with a slash are commands (/help lists them). Ctrl-C ends an
// answer, whose text so far stays in the history, or clears the line; it never ends the program.
// Answer n draws as prompt n of options.generate.sampling.seed. Returns the exit status.
int chat_on_terminal(ChatSettings settings);

}  // namespace xrun
