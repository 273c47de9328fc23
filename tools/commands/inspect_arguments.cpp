#include "tools/commands/inspect_arguments.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/shown_text.h"
#include "tools/commands/command_line.h"
#include "tools/commands/recipe_options.h"

namespace xrun {

namespace {

PackTextStyle text_style(const InspectArguments& arguments) {
  const ConsoleTraits traits = console_traits(STDOUT_FILENO);
  PackTextStyle style{traits.colors, arguments.width > 0 ? arguments.width : traits.width};
  if (arguments.color == "always") style.colors = terminal_colors();
  if (arguments.color == "never") style.colors = ColorDepth::kNone;
  return style;
}

void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// The program and its libraries, by size and time.
void hash_build(Hasher& hasher) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  for (const char* name : {"", "libxrun_core.so", "libxrun_engine.so"}) {
    struct stat facts {};
    ::stat(*name == 0 ? self.c_str() : (self.parent_path() / name).c_str(), &facts);
    hasher.field("build", fmt::format("{} {}.{}", facts.st_size, facts.st_mtim.tv_sec,
                                      facts.st_mtim.tv_nsec));
  }
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", &local);
  return text;
}

}  // namespace

void add_inspect_arguments(CLI::App& app, InspectArguments& arguments) {
  add_recipe_options(app, {arguments.recipe, arguments.sets, arguments.run_dir, arguments.device,
                           arguments.threads});
  app.add_option("--step", arguments.step, "which step, counted from 0 (0)")
      ->check(whole_number(0));
  app.add_option("--rows", arguments.rows, "only the first rows of the step (all)")
      ->check(whole_number(1));
  app.add_option("--html", arguments.html,
                 "write one self-contained page to this file; - is standard output");
  app.add_flag("--json", arguments.json, "one object a pack");
  app.add_flag("--logprobs", arguments.logprobs,
               "log-probs of every token under the policy and its reference; loads the weights");
  app.add_option("--color", arguments.color, "auto, always or never (auto: on a terminal)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--width", arguments.width, "columns of a line (the terminal's)")
      ->check(whole_number(1));
}

void write_inspected(const InspectArguments& arguments, const std::vector<InspectedStep>& sets) {
  if (!arguments.html.empty()) {
    const std::string page = pack_page(sets);
    if (arguments.html == "-") {
      put(page);
    } else {
      write_file_atomic(arguments.html, page);
      std::fprintf(stderr, "%s: written; open it in a browser\n",
                   shown_text(arguments.html).c_str());
    }
  }
  for (const InspectedStep& step : sets) {
    if (arguments.json) {
      for (const InspectedPack& pack : step.packs) put(dump_json(pack_json(step, pack)) + "\n");
    } else if (arguments.html.empty()) {
      if (&step != &sets.front()) put("\n");
      put(step_text(step, text_style(arguments)));
    }
  }
}

std::string loop_note_key(const InspectArguments& arguments) {
  Hasher hasher;
  hasher.field("folder", std::filesystem::current_path().string());
  hasher.field("recipe", arguments.recipe);
  for (const std::string& set : arguments.sets) hasher.field("set", set);
  hasher.field("device", arguments.device);
  hasher.field("day", today());
  hash_build(hasher);
  return hasher.hex();
}

void throw_beyond(int64_t step, int64_t steps) {
  throw UsageError(fmt::format("--step {} is beyond the data: the recipe has {} step{}, 0 to {}",
                               step, steps, steps == 1 ? "" : "s", steps - 1));
}

}  // namespace xrun
