#pragma once
// Names and descriptions of all commands, for `xrun help` and `xrun explain`.

#include <string_view>

namespace xrun {

struct CommandName {
  std::string_view name;
  std::string_view arguments;  // the most used ones; --help lists all
  std::string_view summary;
  // True if the command opens recipes in its own process, so it takes the options of trust
  // (tools/untrusted.h). launch and verify-resume start runs, which take them themselves.
  bool opens_recipes = false;
};

inline constexpr bool kOpensRecipes = true;

// In the order of the help page. The functions that run them are in the table of tools/xrun.cpp and
// in that of the engine.
inline constexpr CommandName kCommandNames[] = {
    {"tokenize", "--tokenizer DIR [FILE]", "convert text to token ids"},
    {"render", "--tokenizer DIR [FILE]", "render conversations with a chat template"},
    {"align", "--student DIR --teacher DIR [FILE] [--report] [--dp]",
     "align the tokens of two tokenizers, byte by byte"},
    {"cache", "RECIPE.lua | ls | verify | rm",
     "build the token caches of a recipe; list, verify or remove caches", kOpensRecipes},
    {"inspect", "RECIPE.lua [--step N] [--rows N] [--html FILE] [--json]",
     "show the packs of a step as they will train", kOpensRecipes},
    {"score", "--model DIR [FILE]", "print the log-probabilities of tokens under a model"},
    {"sample", "--model DIR [--chat] [FILE]",
     "generate text with a model; --chat: chat in the terminal"},
    {"models", "[get NAME]", "list small pretrained models, or download one"},
    {"import", "FILE.gguf OUT", "convert a GGUF file to a Hugging Face folder"},
    {"projection", "build | import | show | diff",
     "map one tokenizer's vocabulary onto another's, for distillation"},
    {"init-model", "OUT", "create a model with random weights"},
    {"report", "RUN... [-o FILE]", "write a page on runs: curves, samples, data, settings, time"},
    {"diff", "A B", "compare two recipes, bundles or runs: settings, code, data, results",
     kOpensRecipes},
    {"bundle", "RECIPE.lua [-o FILE.xrb] [--with-data] [--with-model]",
     "make one file of a recipe and everything it needs; xrun FILE.xrb runs it", kOpensRecipes},
    {"verify", "FILE.xrb | RUN", "prove a bundle or a run unchanged, byte by byte", kOpensRecipes},
    {"plan", "RECIPE.lua [--gpus N] [--device h100] [--json]",
     "predict memory and step time of a recipe on GPUs", kOpensRecipes},
    {"check", "RECIPE.lua", "test in seconds, without weights, whether a recipe would train",
     kOpensRecipes},
    {"init", "[DIR] [--from RECIPE.lua | FILE.xrb]",
     "set up a folder: recipe, data, editor settings"},
    {"types", "", "print definitions of the Lua names for editors"},
    {"doctor", "", "test whether this machine can train, and print the fix if not"},
    {"verify-resume", "RECIPE.lua", "kill a run, resume it and compare the bits"},
    {"launch", "-n N [--hosts FILE] RECIPE.lua [options of a run]",
     "run a recipe on several processes, which share each step"},
    {"repl", "[RECIPE.lua]", "open a Lua prompt, alone or in a recipe paused at its loop",
     kOpensRecipes},
    {"explain", "[NAME] | --where KEY RECIPE.lua",
     "print the documentation of a command, config key or Lua name; where a value comes from",
     kOpensRecipes},
    {"bench", "[NAME] [--json]",
     "run the benchmarks of docs/numbers.md, each with its check; needs the source tree"},
    {"test", "[--quick] [FILTER]", "build and run the tests; needs the source tree"},
};

// Returns the command of a name, or nullptr.
constexpr const CommandName* find_command(std::string_view name) {
  for (const CommandName& command : kCommandNames) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace xrun
