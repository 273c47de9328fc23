// Opening a folder that holds a run. Until something was saved there, nothing is compared; from
// then on every difference is reported, and refuses the resume as resume.h says.

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/run/checkpoint.h"
#include "core/run/metrics_log.h"
#include "core/run/record/run_files.h"
#include "core/run/record/run_record.h"
#include "core/run/run_dir.h"

namespace xrun {

namespace {

// "3 processes", by the ranks of a machine's description.
std::string processes_text(const Json& machine) {
  const Json* ranks = machine.find("ranks");
  return counted(ranks != nullptr && ranks->is_int() ? ranks->as_int() : 1, "process", "es");
}

Json object_or(const Json* value) { return value == nullptr ? Json::object() : *value; }

// The identity of the run that a folder holds.
RunIdentity read_identity(const std::filesystem::path& dir) {
  const Json record = read_run_record(dir);
  const Json* name = record.find("recipe");
  RunIdentity identity;
  if (name != nullptr && name->is_string()) identity.recipe_name = name->as_string();
  identity.recipe_text = read_file(dir / "recipe.lua");
  identity.config = object_or(read_json((dir / "config.json").string()).find("config"));
  identity.binary = object_or(record.find("binary"));
  identity.machine = object_or(record.find("machine"));
  return identity;
}

// "metrics.jsonl.1", or the first of .2, .3, ... that does not exist.
std::filesystem::path unused_metrics_name(const std::filesystem::path& dir) {
  for (int n = 1;; ++n) {
    auto path = dir / fmt::format("metrics.jsonl.{}", n);
    if (!path_exists(path)) return path;
  }
}

// The length that a configuration gives: steps where it has them, else epochs.
struct RunLength {
  std::string key;
  int64_t count = 0;
  std::string text() const { return counted(count, key.substr(0, key.size() - 1)); }
};

RunLength length_of(const Json& config) {
  for (const char* key : {"steps", "epochs"}) {
    const Json* count = config.find(key);
    if (count != nullptr && count->is_int()) return {key, count->as_int()};
  }
  return {};
}

// Returns the refusal of a start that differs in its length alone; "" for any other start. Such a
// start finds the earlier run because the folder's name does not depend on the length.
std::string other_length_text(const std::filesystem::path& dir, const RunIdentity& now,
                              bool finished) {
  RunIdentity before;
  try {
    before = read_identity(dir);
  } catch (const Error&) {
    return "";  // a damaged run is refused without its length
  }
  const RunLength had = length_of(before.config), wanted = length_of(now.config);
  const bool known = !had.key.empty() && had.key == wanted.key && had.count != wanted.count;
  if (!known || !identity_differences(before, now).empty()) return "";
  const std::string fix =
      wanted.count > had.count
          ? fmt::format("--resume --set {}={} lengthens it, --run DIR starts another", wanted.key,
                        wanted.count)
          : "a resume cannot shorten it; --run DIR starts another";
  return fmt::format(
      "{}: this folder holds {} with the same settings but {}, and this start has {}; {}",
      dir.string(), finished ? "a finished run" : "a run", had.text(), wanted.text(), fix);
}

}  // namespace

void RunDir::read_run(const RunDirOptions& options) {
  record_ = Json::object();
  if (!path_exists(file("run.json"))) return;
  record_ = read_run_record(path_);
  check_run_format(record_, path_);
  // Set even without --resume: a run that never saved anything starts over in its own folder.
  resuming_ = true;
  begun_ = true;
  const bool saved = newest_checkpoint(checkpoints()) || finished();
  std::error_code none;
  const bool logged = std::filesystem::file_size(file("metrics.jsonl"), none) > 0 && !none;
  if (!options.resume && (saved || logged)) {
    const Json* done = record_.find("finished");
    const bool ended = done != nullptr && done->is_bool() && done->as_bool();
    const std::string other_length = other_length_text(path_, identity_, ended);
    if (!other_length.empty()) throw UsageError(other_length);
    if (ended) {
      throw UsageError(fmt::format(
          "{0}: this folder holds a finished run; xrun report {0} shows it, --resume --set steps=N "
          "trains it further, --run DIR trains in another folder",
          path_.string()));
    }
    throw UsageError(
        fmt::format("{}: this folder already holds a run; add --resume to continue it, or {}",
                    path_.string(), kElsewhere));
  }
  const RunIdentity before = read_identity(path_);
  // From here on there is something to lose, so every difference is compared.
  if (saved) {
    compare(before);
    const std::string missing = missing_metrics(
        file("metrics.jsonl"), finished() ? 0 : newest_checkpoint(checkpoints()).value_or(0));
    if (!missing.empty()) notices_.push_back(missing + ": the file was cut off or damaged");
    unsaved_steps_ = count_unsaved_steps();
    return;
  }
  // Nothing was saved there, so another recipe may start over, unless it would replace metrics.
  const auto changed = identity_differences(before, identity_);
  // Its metrics would be set aside for another recipe's: that needs --force.
  if (!changed.empty() && logged) {
    note_difference(ResumeItem::kIdentity, "", changed);
  } else if (!changed.empty()) {
    notices_.push_back(
        fmt::format("starting over with changes:\n{}", describe_differences(changed)));
  }
  if (logged) {
    metrics_aside_ = unused_metrics_name(path_);
    notices_.push_back(
        fmt::format("the steps logged so far are kept in {}", metrics_aside_.filename().string()));
  }
  // The data may have changed, too, since nothing was trained on them.
  forget_inputs();
}

// Steps after the last save are cut from metrics.jsonl.
int64_t RunDir::count_unsaved_steps() const {
  const Json* done = record_.find("finished");
  if (done != nullptr && done->is_bool() && done->as_bool()) return 0;
  const int64_t saved = newest_checkpoint(checkpoints()).value_or(0);
  const LastLine last = last_logged_line(file("metrics.jsonl"));
  // Anything after a loop, such as an evaluation, is logged with the number of the next step.
  if (last.step == saved && !last.trained) return 0;
  return std::max<int64_t>(last.step + 1 - saved, 0);
}

// A run that starts over takes a new date and new fingerprints.
void RunDir::forget_inputs() {
  Json record = Json::object();
  for (const auto& [key, value] : record_.as_object()) {
    // These are history; everything else is written by the new start.
    if (key == "started" || key == "resumes") record.set(key, value);
  }
  record_ = std::move(record);
}

void RunDir::compare(const RunIdentity& before) {
  const auto changed = identity_differences(before, identity_);
  const auto lengths = length_differences(before, identity_);
  longer_ = !lengths.empty();
  other_settings_ = !changed.empty();
  if (!changed.empty()) note_difference(ResumeItem::kIdentity, "", changed);
  // Reported by the loop, with its new schedule.
  for (const Difference& length : lengths) changes_.push_back(length.path);
  // Reported so that a changed save.every surprises nobody.
  const auto free = free_differences(before, identity_);
  if (!free.empty()) note_difference(ResumeItem::kFree, "", free);
  const bool other_type = std::any_of(free.begin(), free.end(), [](const Difference& one) {
    return one.path == "config.export.dtype";
  });
  if (other_type && finished()) export_again();
  if (is_interactive(record_) && !finished()) {
    notices_.push_back(
        "a prompt was opened in this run: what was typed there is in log.txt and not in the "
        "recipe, so from here on the run trains with the recipe's own values\n");
  }
  auto machine = find_differences(before.machine, identity_.machine, "machine");
  // Not a difference of results: ranks only share the work.
  for (const Difference& one : machine) {
    if (one.path != "machine.ranks") continue;
    notices_.push_back(fmt::format("the run continues on {}; it was on {} before",
                                   processes_text(identity_.machine),
                                   processes_text(before.machine)));
  }
  std::erase_if(machine, [](const Difference& one) { return one.path == "machine.ranks"; });
  if (!machine.empty()) note_difference(ResumeItem::kMachine, "", machine);
}

// The run continues at its last step, so what follows its last loop is done again. Without that
// step's checkpoint it would train again.
void RunDir::export_again() {
  const int64_t steps = record_.at("steps").as_int();
  XRUN_CHECK(newest_checkpoint(checkpoints()).value_or(0) == steps,
             "{}: the finished run cannot be exported in another type, since the checkpoint of its "
             "last step, {}, is missing; restore it, or leave export.dtype out",
             path_.string(), checkpoint_name(steps));
  exports_again_ = true;
  notices_.push_back(fmt::format(
      "{} is finished: nothing is trained, but what follows its last loop is done again",
      path_.string()));
}

void RunDir::note_difference(ResumeItem item, const std::string& subject,
                             const std::vector<Difference>& differences) {
  try {
    notices_.push_back(resume_notice(item, subject, differences, path_, force_));
  } catch (const Error& error) {
    try {
      log_line(fmt::format("refused: {}", error.what()));
    } catch (const Error&) {
      // The folder cannot be written; the caller reports the refusal.
    }
    throw;
  }
  forced_ = forced_ || resume_is_refused(item);
  // The fields of data are digests and settings of its cache; its name says more.
  if (!subject.empty() && !differences.empty()) changes_.push_back(subject);
  if (!subject.empty()) return;
  for (const Difference& one : differences) changes_.push_back(one.path);
}

}  // namespace xrun
