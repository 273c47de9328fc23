// xrun doctor: tests whether this machine can train, and prints the fix if not.

#include <fmt/core.h>

#include <filesystem>
#include <string>

#include "core/base/folder.h"
#include "core/console/terminal/finding.h"
#include "core/run/signals.h"
#include "lua/bind/recipe.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/doctor_machine.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/finding_report.h"
#include "tools/commands/engine/smoke_train.h"

namespace xrun {

namespace {

constexpr int kDoctorColumns = 13;  // "sentencepiece"

Finding cache_finding() {
  constexpr const char* kWay = "set XRUN_CACHE to a folder on another disk";
  try {
    return disk_finding("cache", cache_root(), kWay);
  } catch (const Error& error) {
    return {Verdict::kWrong, "cache", error.what(), kWay};
  }
}

// A run that cannot start is a finding too.
template <class Find>
void add_found(FindingReport& report, const std::string& subject, const Find& find) {
  try {
    report.add(find());
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    report.add({Verdict::kWrong, subject, error.what(), "what it names has to be there"});
  }
}

}  // namespace

int command_doctor(int argc, char** argv) {
  CLI::App app(
      "Looks whether this machine can train: processor, memory, LibTorch, GPU, disks, and a short "
      "training run whose outcome is known. Each line is ok, missing or wrong, with what to do. "
      "Exit status 1 if something that is needed is missing or wrong.",
      "xrun doctor");
  bool json = false, quick = false;
  std::string device = "cpu";
  int threads = 0;
  app.add_flag("--json", json, "one object a line: verdict, subject, text, remedy, needed");
  app.add_flag("--quick", quick, "without the training run");
  app.add_option("--device", device, "what is to train: cpu, or cuda, whose lines then count")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--threads", threads, "threads of the CPU (all)")->check(thread_count());
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  install_signal_handlers();
  set_up_torch(threads);
  FindingReport report(json, kDoctorColumns);
  report.add(machine_findings());
  report.add(gpu_findings(device == "cuda"));
  report.begin("measuring the disks ...");
  report.add(cache_finding());
  report.add(disk_finding("runs", std::filesystem::current_path() / "runs",
                          "start in a folder on another disk, or give --run DIR"));
  add_found(report, "programs", program_findings);
  if (!quick) {
    report.begin("training a tiny model ...");
    add_found(report, "training", [&] { return smoke_train(device, threads); });
  }
  report.say(report.trouble() == 0
                 ? "\nthis machine can train"
                 : fmt::format("\n{} of {} lines need a remedy", report.trouble(), report.size()));
  return report.trouble() == 0 ? 0 : 1;
}

}  // namespace xrun
