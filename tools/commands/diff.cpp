// xrun diff A B: differences of recipes, bundles and runs in settings, data, code and results. Exit
// status as of diff(1).

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "core/console/report/report.h"
#include "core/console/terminal/shown_text.h"
#include "core/share/number_comparison.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

constexpr int kSame = 0, kDiffer = 1;  // an error is a UsageError: 2

int diff(const std::vector<std::string>& names, bool json) {
  std::vector<std::string> notices;
  const RunComparison comparison = compare_numbers(names[0], names[1], notices);
  for (const std::string& notice : notices) {
    std::fprintf(stderr, "xrun: %s\n", shown_text(notice).c_str());
  }
  if (json) {
    std::printf("%s\n", dump_json(comparison_json(comparison)).c_str());
  } else {
    Console console([](std::string_view text) { write_through(stdout, text); }, console_traits(1));
    console.print_raw(comparison_text(comparison, console));
  }
  return comparison.same() ? kSame : kDiffer;
}

}  // namespace

int command_diff(int argc, char** argv) {
  CLI::App app(
      "Shows the differences between two of: recipes, bundles, runs. Settings are the resolved "
      "ones, data are compared by their bytes, results by the steps that both have. Nothing is "
      "run. Exit status: 0 no difference has an effect, 1 some have, 2 an error.",
      "xrun diff");
  std::vector<std::string> names(2);
  bool json = false;
  app.add_option("A", names[0], "a recipe's file, a bundle, or the folder of a run")->required();
  app.add_option("B", names[1], "the same")->required();
  app.add_flag("--json", json, "one object");
  add_trust_arguments(app);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  try {
    return diff(names, json);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());  // status 1 would mean that they differ
  }
}

}  // namespace xrun
