// xrun check: tests in seconds whether a recipe would train, without weights or training.

#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/console/terminal/console.h"
#include "lua/prompt/preview.h"
#include "lua/state/interruption.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/check_recipe.h"
#include "tools/commands/engine/cuda_plugin.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/finding_report.h"
#include "tools/commands/engine/recipe_arguments.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

constexpr int kCheckColumns = 10;  // "gradient 2"
constexpr double kOwnTimeS = 10;   // of the recipe's own code, so that an endless loop is named
constexpr int kMostLoops = 16;     // of a recipe; the report says if there are more

// Checks the loop at which the recipe is paused.
void check_loop(Preview& preview, FindingReport& report) {
  const LoopPause pause = *preview.pause();
  report.add(loop_findings(pause));
  // Rows that do not fit leave nothing to plan or to step.
  if (report.trouble() > 0) return;
  report.add(weight_findings(pause));
  report.add(memory_finding(pause));
  report.begin("taking one dry step ...");
  report.add(dry_step_findings(preview));
}

void check_loops(Preview& preview, FindingReport& report) {
  for (int loops = 1; preview.pause() != nullptr; ++loops) {
    if (loops > kMostLoops) {
      report.add(
          {Verdict::kNote, "loops", fmt::format("only the first {} were checked", kMostLoops)});
      return;
    }
    if (loops > 1) report.say(fmt::format("\nloop {}", loops));
    check_loop(preview, report);
    // The dry step may have run the recipe to its end.
    if (report.trouble() > 0 || preview.pause() == nullptr) break;
    preview.next_loop();
  }
  // If a field that only a real run makes ended the dry step, a note has reported it.
  const bool unchecked = preview.error() != nullptr && !preview.error()->missing_field.empty();
  if (preview.error() != nullptr && !unchecked && report.trouble() == 0) {
    report.add(error_finding("recipe", *preview.error()));
  }
}

}  // namespace

int command_check(int argc, char** argv) {
  RecipeOptions options;
  bool json = false, all = false;
  CLI::App app(
      "Checks a recipe without training it: configuration, rows, template laws, packs, memory "
      "plan, one step on seeded stand-ins for log-probs, and the gradient of the objective against "
      "finite differences. Loads no weights, reads the headers of their files, and writes no run. "
      "Exit status 0: the recipe would train; 2: it would not.",
      "xrun check");
  add_recipe_arguments(app, options);
  add_trust_arguments(app);
  app.add_flag("--all", all, "also show values at their defaults");
  app.add_flag("--json", json,
               "one JSON object per line: verdict, subject, text, remedy, file, line");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  options = preview_options(app, std::move(options));
  if (options.device == "cuda") load_cuda_plugin();
  warn_of_threads(options.threads);
  FindingReport report(json, kCheckColumns);
  report.begin("reading the data ...");
  // Findings say what the recipe would print.
  const auto quiet = std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{});
  const std::unique_ptr<Preview> preview =
      from_option([&] { return open_preview(options, quiet, kOwnTimeS); });
  // A wrong configuration has no resolved values to show.
  const bool misused = preview->error() != nullptr && preview->error()->usage;
  if (preview->resolved() && !misused)
    report.add(config_finding(preview->recipe().context().config, all));
  report.add(ledger_findings(preview->session()));
  if (preview->error() != nullptr) {
    report.add(error_finding(preview->error()->usage ? "config" : "recipe", *preview->error()));
  } else if (preview->pause() == nullptr) {
    Finding finding{Verdict::kWrong, "recipe", preview->no_loop_text()};
    report.add(finding);
  } else {
    report.add(template_findings(*preview));
    try {
      check_loops(*preview, report);
    } catch (const Interrupted&) {
      const std::string at = interrupted_at(preview->state());
      report.add(
          {Verdict::kNote, "stopped",
           (at.empty() ? "" : "at " + at + ", ") + std::string("so some checks are missing")});
      throw;
    }
  }
  report.say(report.trouble() == 0 ? fmt::format("\n{} would train", options.recipe)
                                   : fmt::format("\n{} would not train", options.recipe));
  return report.trouble() == 0 ? 0 : 2;
}

}  // namespace xrun
