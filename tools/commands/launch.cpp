// xrun launch -n N RECIPE.lua: the ranks of a run on this machine, with the environment of torchrun.

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/dist/watch/socket.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/rank_processes.h"

namespace xrun {

namespace {

constexpr int64_t kMostLocalRanks = 1024;

bool has_option(const std::vector<std::string>& words, const std::string& name) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == name || word.starts_with(name + "=");
  });
}

// Returns the place of the recipe among the arguments, argc if there is none. It ends the options of
// launch itself.
int recipe_index(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.ends_with(".lua") || word.ends_with(".xrb")) return i;
  }
  return argc;
}

}  // namespace

int command_launch(int argc, char** argv) {
  int64_t ranks = 0;
  CLI::App app(
      "Runs a recipe on several processes of this machine, which share each step.\n"
      "usage: xrun launch -n N RECIPE.lua [options of a run; --threads counts per process]",
      "xrun launch");
  app.add_option("-n,--ranks", ranks, "number of processes")
      ->required()
      ->check(CLI::Range(int64_t{1}, kMostLocalRanks));
  const int recipe = recipe_index(argc, argv);
  if (const auto status = parse_command_line(app, recipe, argv)) return *status;
  if (recipe == argc) {
    throw UsageError("launch needs a recipe: xrun launch -n 4 RECIPE.lua [options of a run]");
  }
  const std::vector<std::string> words(argv + recipe, argv + argc);

  RankProcessOptions options;
  options.local_size = options.size = ranks;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  options.command.insert(options.command.end(), words.begin(), words.end());
  // A resume takes the threads of its run.
  if (!has_option(words, "--threads") && !has_option(words, "--resume")) {
    const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
    options.command.push_back("--threads");
    options.command.push_back(std::to_string(std::max<int64_t>(1, cores / ranks)));
  }
  Socket master = listen_on(0, /*loopback=*/true);
  options.address = kLoopback;
  options.port = port_of(master);
  options.master_fd = master.release();
  return run_ranks(options);
}

}  // namespace xrun
