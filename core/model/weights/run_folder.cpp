// A resume whose --steps are the saved steps trains nothing and runs what follows the recipe's
// loop, the export included.

#include "core/model/weights/run_folder.h"

#include <charconv>

#include "core/base/file.h"
#include "core/base/file_lock.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// The folder of the run that `dir` belongs to, "" if it belongs to none.
fs::path run_of(fs::path dir) {
  if (dir.filename().empty()) dir = dir.parent_path();  // "runs/a/hf/"
  const fs::path parent = dir.parent_path();
  const bool part = dir.filename() == "hf" || dir.filename() == "checkpoints";
  // First, since a checkpoint has a run.json too.
  const fs::path run = parent.filename() == "checkpoints" ? parent.parent_path()
                       : part                             ? parent
                                                          : dir;
  return is_file(run / "run.json") && is_file(run / "config.json") ? run : fs::path();
}

// The steps of the checkpoint that `latest` marks, -1 if there is none.
int64_t saved_steps(const fs::path& run) {
  const fs::path latest = run / "checkpoints/latest";
  if (!is_file(latest)) return -1;
  std::string name = read_file(latest, 4096);
  while (!name.empty() && name.back() == '\n') name.pop_back();
  const size_t digits = name.find_first_of("0123456789");
  int64_t steps = -1;
  if (digits == std::string::npos || !is_file(run / "checkpoints" / name / "manifest.json")) {
    return steps;
  }
  std::from_chars(name.data() + digits, name.data() + name.size(), steps);
  return steps;
}

// The recipe's file, or the run's copy if the file is gone or was edited since.
fs::path recipe_of(const fs::path& run, const Json& record) {
  const fs::path file = text_member(record, "recipe_file"), copy = run / "recipe.lua";
  if (!is_file(file)) return copy;
  const bool same = file.extension() == ".xrb" || read_file(file) == read_file(copy);
  return same ? file : copy;
}

std::string export_command(const fs::path& run, int64_t steps) {
  const Json record = read_json((run / "run.json").string());
  const fs::path recipe = recipe_of(run, record), folder = text_member(record, "folder");
  std::error_code code;
  // Relative paths of the settings are read from the folder in which the run began.
  const bool moves = !folder.empty() && fs::is_directory(folder, code) &&
                     !fs::equivalent(folder, fs::current_path(code), code);
  const auto spelled = [&](const fs::path& path) {
    const fs::path whole = absolute_path(path).lexically_normal();
    const fs::path inside = whole.lexically_relative(working_folder());
    const bool below = !inside.empty() && *inside.begin() != "..";
    return shell_word(!moves && below ? inside.string() : whole.string());
  };
  const Json* untrusted = record.find("untrusted");
  const bool limits = untrusted != nullptr && untrusted->is_bool() && untrusted->as_bool();
  const bool bundle = recipe.extension() == ".xrb";
  return fmt::format("{}{} {} --run {} --resume --steps {}{}",
                     moves ? "cd " + shell_word(folder.string()) + " && " : "", called_as(moves),
                     spelled(recipe), spelled(run), steps,
                     limits == bundle ? ""
                     : limits         ? " --untrusted"
                                      : " --trusted");
}

}  // namespace

std::string run_folder_text(const fs::path& dir) {
  const fs::path run = run_of(dir);
  if (run.empty()) return "";
  if (is_file(run / "hf/config.json")) return "its model is " + (run / "hf").string();
  const int64_t steps = saved_steps(run);
  if (steps < 0) return "no model was exported yet";
  if (is_locked(run / "lock")) return "no model was exported yet, and the run is still running";
  return fmt::format(
      "no model was exported yet; to export the last save, of {}, without training: {}",
      counted(steps, "step"), export_command(run, steps));
}

}  // namespace xrun
