// xrun launch -n N RECIPE.lua: the ranks of a run, with the environment of torchrun.

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/dist/watch/socket.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/launch_hosts.h"
#include "tools/commands/rank_processes.h"
#include "tools/untrusted.h"

namespace xrun {

namespace {

bool has_option(const std::vector<std::string>& words, const std::string& name) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == name || word.starts_with(name + "=");
  });
}

// Returns the index of the recipe among the arguments, where launch's own options end; argc if
// there is none.
int recipe_index(int argc, char** argv) {
  return static_cast<int>(std::find_if(argv + 1, argv + argc, is_recipe) - argv);
}

// Returns the command of each rank.
std::vector<std::string> rank_command(const std::vector<std::string>& words, int64_t local_size) {
  std::vector<std::string> out = {program_path().string()};
  out.insert(out.end(), words.begin(), words.end());
  // A resume takes the threads of its run.
  if (has_option(words, "--threads") || has_option(words, "--resume")) return out;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  out.push_back("--threads");
  out.push_back(std::to_string(std::max<int64_t>(1, cores / local_size)));
  return out;
}

// Sets the beginning of the command that continues the run, which rank 0 prints.
void set_launched_as(const std::string& text) {
  ::setenv(kLaunchedAs, text.c_str(), /*overwrite=*/1);
}

int run_here(int64_t ranks, const std::vector<std::string>& words) {
  set_launched_as(fmt::format("launch -n {}", ranks));
  RankProcessOptions options;
  options.local_size = options.size = ranks;
  options.command = rank_command(words, ranks);
  Socket master = listen_on(0, /*loopback=*/true);
  options.address = kLoopback;
  options.port = port_of(master);
  options.master_fd = master.release();
  return run_ranks(options);
}

int run_host_ranks(const HostRanks& ranks, const std::vector<std::string>& words) {
  RankProcessOptions options;
  options.first_rank = ranks.first_rank;
  options.local_size = ranks.local_size;
  options.size = ranks.size;
  options.command = rank_command(words, ranks.local_size);
  options.address = ranks.address;
  options.port = ranks.port;
  options.from_launcher = true;
  return run_ranks(options);
}

}  // namespace

int command_launch(int argc, char** argv) {
  int64_t ranks = 0;
  std::string hosts, host_ranks;
  CLI::App app(
      "Runs a recipe on several processes, called ranks, which share each step: xrun launch -n 4 "
      "RECIPE.lua",
      "xrun launch");
  app.add_option("-n,--ranks", ranks, "number of processes; with --hosts, all slots by default")
      ->check(whole_number(1))
      ->type_name("N");
  app.add_option("--hosts", hosts,
                 "run on the machines of this file, reached by ssh: lines of HOST or HOST slots=N")
      ->type_name("FILE");
  app.add_option("--host-ranks", host_ranks, "the ranks of one machine; for --hosts")->group("");
  std::string name;
  app.add_option("RECIPE.lua", name,
                 "the recipe; behind it the options of a run, of which --threads counts per rank")
      ->required();
  const int recipe = recipe_index(argc, argv);
  const bool help = std::any_of(
      argv, argv + argc, [](std::string_view word) { return word == "-h" || word == "--help"; });
  if (recipe == argc && !help) {
    throw UsageError("launch needs a recipe: xrun launch -n 4 RECIPE.lua [options of a run]");
  }
  if (const auto status = parse_command_line(app, std::min(recipe + 1, argc), argv)) return *status;
  if (ranks == 0 && hosts.empty() && host_ranks.empty()) {
    throw UsageError("launch needs a number of processes: xrun launch -n 4 RECIPE.lua");
  }
  if (ranks > kMostHostRanks && hosts.empty()) {
    throw UsageError(
        fmt::format("-n: got {}, wanted at most {} on one machine", ranks, kMostHostRanks));
  }
  const std::vector<std::string> words(argv + recipe, argv + argc);
  if (!hosts.empty()) {
    set_launched_as(fmt::format("launch{} --hosts {}",
                                ranks > 0 ? fmt::format(" -n {}", ranks) : "", shell_word(hosts)));
    return run_hosts(read_hosts(hosts, ranks), words);
  }
  return host_ranks.empty() ? run_here(ranks, words)
                            : run_host_ranks(read_host_ranks(host_ranks), words);
}

}  // namespace xrun
