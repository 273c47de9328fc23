// xrun verify FILE.xrb | RUN compares every byte with the digests that were taken when it was made.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "core/run/checkpoint.h"
#include "core/run/checkpoint_files.h"
#include "core/run/record/run_digests.h"
#include "core/run/record/run_files.h"
#include "core/share/opened_bundle.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/bundle_arguments.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

constexpr int kUnchanged = 0, kChanged = 1;

void say(const std::string& line) { fmt::print("{}\n", shown_text(line)); }

// Verifies the bundle, then what it needs from this machine: with a difference there the bundle is
// whole, but its run would be refused.
int verify_bundle(const std::string& file) {
  const Bundle bundle = Bundle::open(file);
  bundle.verify();
  const BundleLock& lock = bundle.lock();
  say(fmt::format("{}: unchanged, {}; SHA-256 of the lock {}", file,
                  counted(std::ssize(lock.members), "member"), bundle.digest()));
  const OpenedBundle opened = open_bundle(file, program_facts());
  for (const std::string& notice : opened.notices) say("note: " + notice);
  for (const std::string& missing : opened.missing) say("missing: " + missing);
  if (!opened.missing_fix.empty()) say(opened.missing_fix);
  for (const Difference& one : opened.differences) {
    say(fmt::format("differs: {}: {} -> {}", one.path, one.before, one.now));
  }
  const bool runs = opened.missing.empty() && opened.differences.empty();
  if (runs) say("everything that it needs is here, as its lock says");
  return runs ? kUnchanged : kChanged;
}

int verify_run(const std::filesystem::path& run) {
  // A run that has lost its run.json still has its checkpoints.
  if (!path_exists(run / "run.json") && !path_exists(run / "checkpoints")) {
    throw UsageError(fmt::format(
        "{}: is neither a bundle nor the folder of a run: it has no run.json", run.string()));
  }
  check_run_format(read_run_record(run), run);
  std::vector<std::string> changed = changed_run_files(run);
  int64_t checkpoints = 0;
  for (const std::filesystem::path& folder : list_folder(run / "checkpoints")) {
    const std::string name = folder.filename().string();
    const std::optional<int64_t> step = checkpoint_step(name);
    if (!step) continue;
    ++checkpoints;
    const CheckpointManifest manifest = read_checkpoint_manifest(folder, *step);
    if (!manifest.damage.empty()) changed.push_back(manifest.damage);
  }
  for (const std::string& one : changed) say(fmt::format("{}: {}", run.string(), one));
  if (!changed.empty()) return kChanged;
  say(fmt::format("{}: unchanged since the run ended, {} included", run.string(),
                  counted(checkpoints, "checkpoint")));
  return kUnchanged;
}

}  // namespace

int command_verify(int argc, char** argv) {
  CLI::App app(
      "Proves a bundle or a run unchanged. Of a bundle: every member against its lock, and whether "
      "data, model and this program are the locked ones. Of a run that has ended: every file "
      "against digests.json, checkpoints against their manifests. Exit status: 0 unchanged, 1 not.",
      "xrun verify");
  std::string name;
  app.add_option("FILE.xrb|RUN", name, "a bundle, or the folder of a run")->required();
  add_trust_arguments(app);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  std::error_code none;
  if (name.ends_with(".lua") && is_file(name)) {
    throw UsageError(fmt::format(
        "{0}: is a recipe; verify takes a bundle, or the folder of a run: {1} verify RUN. {1} "
        "check {2} checks a recipe",
        name, called_as(), shell_word(name)));
  }
  return std::filesystem::is_directory(name, none) ? verify_run(name) : verify_bundle(name);
}

}  // namespace xrun
