// xrun diff RUN RUN: differences in settings, data, code and results. Exit status as of diff(1).

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "core/console/report/report.h"
#include "core/run/record/run_comparison.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/run_notices.h"

namespace xrun {

namespace {

constexpr int kSame = 0, kDiffer = 1;  // an error is a UsageError: 2

int diff(const std::vector<std::string>& dirs, bool json) {
  const std::vector<RunFiles> runs = read_runs(dirs);
  warn_of_gaps(runs);
  const RunComparison comparison = compare_runs(runs[0], runs[1]);
  if (json) {
    std::printf("%s\n", dump_json(comparison_json(comparison)).c_str());
  } else {
    Console console([](std::string_view text) { write_through(stdout, text); }, console_traits(1));
    console.print(comparison_text(comparison, console));
  }
  return comparison.same() ? kSame : kDiffer;
}

}  // namespace

int command_diff(int argc, char** argv) {
  CLI::App app(
      "Shows the differences between two runs in settings, code, data and results. Exit status: 0 "
      "no difference has an effect, 1 some have, 2 an error.",
      "xrun diff");
  std::vector<std::string> dirs;
  bool json = false;
  app.add_option("RUN", dirs, "the folders of two runs")->required()->expected(2);
  app.add_flag("--json", json, "one object");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  try {
    return diff(dirs, json);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());  // status 1 would mean that they differ
  }
}

}  // namespace xrun
