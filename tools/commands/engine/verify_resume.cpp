// xrun verify-resume kills a run, resumes it, and compares it bit for bit with an undisturbed one.
// Each run is a child process in a temporary folder.

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/child_process.h"
#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/base/running_program.h"
#include "core/base/temporary_dir.h"
#include "core/run/checkpoint.h"
#include "core/run/first_divergence.h"
#include "core/run/signals.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/finding_report.h"
#include "tools/commands/engine/recipe_arguments.h"

namespace xrun {

namespace {

constexpr int kResumeColumns = 14;  // "run.state" and names of what a run saves
constexpr int kKilled = 128 + 9;    // the status of a child that SIGKILL ended

struct VerifyOptions {
  RecipeOptions recipe;
  int64_t steps = 3;             // the least that two kills need, so that a resume is killed too
  std::vector<int64_t> kill_at;  // empty: at a third and two thirds
  bool json = false;
};

[[noreturn]] void throw_late_kill(int64_t kill, int64_t steps) {
  throw UsageError(
      fmt::format("--kill-at {}: the run takes {} steps; wanted a step below {}, or more --steps",
                  kill, steps, steps));
}

// Starts, kills and compares the runs of one verification.
class Verification {
 public:
  Verification(const VerifyOptions& options, FindingReport& report)
      : options_(options), report_(report), scratch_("verify") {}

  int run() {
    if (!run_whole("undisturbed")) return 1;
    const int64_t steps = steps_of("undisturbed");
    for (const int64_t kill : kills(steps)) {
      if (!kill_after(kill, steps)) return 1;
    }
    if (!resume_to_end()) return 1;
    if (compare("undisturbed", "resumed")) {
      report_.say(
          fmt::format("\nkilled and resumed, {} gives the same bits", options_.recipe.recipe));
      return 0;
    }
    compare_undisturbed();
    return 1;
  }

 private:
  std::filesystem::path dir(const std::string& name) const { return scratch_.path() / name; }

  ChildResult start(const std::string& name, bool resume, const KillWhen& kill_when = {}) const {
    const RecipeOptions& recipe = options_.recipe;
    std::vector<std::string> arguments = {
        program_path().string(),        recipe.recipe, "--run",      dir(name).string(), "--steps",
        std::to_string(options_.steps), "--device",    recipe.device};
    if (recipe.threads > 0) {
      arguments.insert(arguments.end(), {"--threads", std::to_string(recipe.threads)});
    }
    // Every step is saved, so that a kill can follow any of them; --set save.every=N wins.
    const bool saves = std::any_of(recipe.sets.begin(), recipe.sets.end(),
                                   [](const auto& set) { return set.starts_with("save.every="); });
    if (!saves) arguments.insert(arguments.end(), {"--set", "save.every=1"});
    for (const std::string& set : recipe.sets) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    // Runs that the clock ends could not be compared.
    arguments.insert(arguments.end(), {"--set", "stop.after=0"});
    if (resume) arguments.emplace_back("--resume");
    // In a separate process: SIGKILL must lose everything that memory holds.
    return run_child(arguments, dir("output"), kill_when);
  }

  // Checks a child that should have succeeded.
  bool ended_well(const std::string& what, const ChildResult& child) {
    if (child.status == 0) return true;
    // A mistake on the command line or in the recipe.
    if (child.status == 2) {
      constexpr std::string_view kOurs = "xrun: error: ";  // it is printed again
      const std::string& text = child.last_lines;
      throw UsageError(text.starts_with(kOurs) ? text.substr(kOurs.size())
                                               : "the recipe does not start:\n" + text);
    }
    report_.add({Verdict::kWrong, what,
                 fmt::format("ended with status {}:\n{}", child.status, child.last_lines),
                 what == "resumed" ? "the run cannot be resumed: see its last lines"
                                   : "first run the recipe by itself"});
    return false;
  }

  bool run_whole(const std::string& name) {
    report_.begin(fmt::format("{} run ...", name));
    const auto begin = SteadyClock::now();
    if (!ended_well(name, start(name, false))) return false;
    const double seconds = seconds_since(begin);
    report_.add({Verdict::kOk, name, fmt::format("{} steps in {:.1f} s", steps_of(name), seconds)});
    return true;
  }

  int64_t steps_of(const std::string& name) const {
    const std::optional<int64_t> step = newest_checkpoint(dir(name) / "checkpoints");
    XRUN_CHECK(step.has_value(), "{} saves no checkpoint; a recipe that trains calls xrun.run",
               options_.recipe.recipe);
    return *step;
  }

  std::vector<int64_t> kills(int64_t steps) const {
    if (steps < 2) {
      throw UsageError(
          fmt::format("{} takes {} step; wanted at least 2, so that a kill can lose one",
                      options_.recipe.recipe, steps));
    }
    std::vector<int64_t> at = options_.kill_at;
    // Two kills, so that a resumed run is killed and resumed too.
    if (at.empty()) at = {std::max<int64_t>(1, steps / 3), std::max<int64_t>(1, 2 * steps / 3)};
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    if (at.back() >= steps) throw_late_kill(at.back(), steps);
    return at;
  }

  // Resumes the run and kills it once step `step` is saved.
  bool kill_after(int64_t step, int64_t steps) {
    report_.begin(fmt::format("killing it after step {} ...", step));
    const std::filesystem::path checkpoints = dir("resumed") / "checkpoints";
    const bool resume = newest_checkpoint(checkpoints).has_value();  // the first one starts it
    const ChildResult child = start(
        "resumed", resume, [&] { return newest_checkpoint(checkpoints).value_or(0) >= step; });
    // The newest may be later than `step`: the child runs on until the signal.
    const int64_t saved = newest_checkpoint(checkpoints).value_or(0);
    if (child.status == kKilled && saved >= steps) {
      report_.add({Verdict::kNote, "killed",
                   fmt::format("with SIGKILL after the last step, {}, was saved, so the resume has "
                               "no step to repeat",
                               saved),
                   "choose an earlier --kill-at, more --steps or a smaller save.every"});
      return true;
    }
    if (child.status == kKilled) {
      report_.add({Verdict::kOk, "killed",
                   fmt::format("with SIGKILL after step {}, {} saved", step, saved)});
      return true;
    }
    if (!ended_well("resumed", child)) return false;
    report_.add({Verdict::kMissing, "killed",
                 fmt::format("the run ended before it was killed after step {}", step),
                 "choose an earlier --kill-at or more --steps"});
    return false;
  }

  bool resume_to_end() {
    report_.begin("resuming it to its end ...");
    if (!ended_well("resumed", start("resumed", true))) return false;
    report_.add({Verdict::kOk, "resumed", fmt::format("to step {}", steps_of("resumed"))});
    return true;
  }

  bool compare(const std::string& a, const std::string& b) {
    bool same = true;
    for (const FirstDivergence& divergence :
         first_divergences(dir(a), dir(b), "the " + a + " run", "the " + b + " one")) {
      report_.add(
          {divergence.same ? Verdict::kOk : Verdict::kWrong, divergence.what, divergence.text,
           divergence.same ? ""
                           : "a step may depend only on the batch, math.random and run.state: "
                             "a resume does not restore clocks, files or counters in locals"});
      same = same && divergence.same;
    }
    return same;
  }

  // If the runs differ, two undisturbed runs tell whether the recipe or the resume is at fault.
  void compare_undisturbed() {
    report_.begin("the undisturbed run once more ...");
    if (!ended_well("repeated", start("repeated", false))) return;
    for (const FirstDivergence& divergence : first_divergences(
             dir("undisturbed"), dir("repeated"), "the undisturbed run", "the repeated one")) {
      if (divergence.same) continue;
      report_.add({Verdict::kWrong, "repeated",
                   "two undisturbed runs differ too: " + divergence.text,
                   "the recipe itself does not repeat: look for clocks, pairs() over a table, or "
                   "data that changes"});
      return;
    }
    report_.add(
        {Verdict::kNote, "repeated", "two undisturbed runs are equal, so the resume is at fault"});
  }

  const VerifyOptions& options_;
  FindingReport& report_;
  TemporaryDir scratch_;
};

}  // namespace

int command_verify_resume(int argc, char** argv) {
  VerifyOptions options;
  CLI::App app(
      "Runs a recipe twice, once undisturbed and once killed (SIGKILL) and resumed, and compares "
      "metrics (perf/* aside), weights and optimizer bit for bit. Exit status 0: equal; 1: not. "
      "Both runs are in a temporary folder (TMPDIR) that is removed; token caches stay. Every step "
      "is saved unless --set save.every=N is given.",
      "xrun verify-resume");
  add_recipe_arguments(app, options.recipe);
  app.remove_option(app.get_option("--run"));
  app.add_option("--steps", options.steps, "steps of each run; schedules do not change")
      ->check(whole_number(2))
      ->capture_default_str();
  app.add_option(
         "--kill-at", options.kill_at,
         "kill the run once this step is saved; may be repeated (a third and two thirds of the "
         "steps)")
      ->allow_extra_args(false)
      ->check(whole_number(1));
  app.add_flag("--json", options.json, "one JSON object per line: verdict, subject, text, remedy");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  for (const int64_t kill : options.kill_at) {
    if (kill >= options.steps) throw_late_kill(kill, options.steps);
  }
  install_signal_handlers();
  FindingReport report(options.json, kResumeColumns);
  return Verification(options, report).run();
}

}  // namespace xrun
