// Invariant: a folder holds a run exactly if it holds run.json, which begin() writes after
// recipe.lua and config.json. Everything is written while the lock is held, by the first rank.
#include "core/run/run_dir.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/run/checkpoint.h"
#include "core/run/machine.h"
#include "core/run/metrics_log.h"
#include "core/run/record/run_digests.h"
#include "core/run/record/run_files.h"
#include "core/run/record/run_record.h"

namespace xrun {

namespace {

constexpr std::string_view kElsewhere = "choose another folder with --run DIR";
// A killed process holds its lock until its memory is freed: seconds, with gigabytes on a busy
// machine.
constexpr auto kLockPatience = std::chrono::seconds(5);
constexpr auto kLockPoll = std::chrono::milliseconds(50);
constexpr const char* kDateTime = "%Y-%m-%dT%H:%M:%S%z";
constexpr std::array<std::string_view, 5> kBeforeBegin = {"lock", "log.txt", "ledger.json",
                                                          "recipe.lua", "config.json"};

// True for files that a process killed before begin() may have left.
bool is_from_before_begin(const std::string& name) {
  return std::any_of(kBeforeBegin.begin(), kBeforeBegin.end(),
                     [&](std::string_view own) {
                       return name == own || name.starts_with(std::string(own) + ".tmp");
                     }) ||
         name.starts_with("run.json.tmp");
}

std::string time_text(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

JsonStyle indented() {
  JsonStyle style;
  style.indent = 2;
  return style;
}

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
    if (!std::filesystem::exists(path)) return path;
  }
}

}  // namespace

RunDir RunDir::open(RunIdentity identity, RunDirOptions options) {
  std::optional<RunDir> dir;
  const std::string opened = from_first_rank(options.ranks, "the run's folder", [&] {
    dir.emplace(RunDir(identity, options));
    return dump_json(dir->opened());
  });
  if (dir) return std::move(*dir);
  return RunDir(std::move(identity), parse_json(opened, "the run's folder"));
}

Json RunDir::opened() const {
  return Json(Json::Object{{"path", path_.string()},
                           {"record", record_},
                           {"resuming", resuming_},
                           {"force", force_},
                           {"longer", longer_},
                           {"begun", begun_}});
}

RunDir::RunDir(RunIdentity identity, const Json& opened)
    : identity_(std::move(identity)),
      path_(opened.at("path").as_string()),
      record_(opened.at("record")),
      writes_(false),
      resuming_(opened.at("resuming").as_bool()),
      force_(opened.at("force").as_bool()),
      longer_(opened.at("longer").as_bool()),
      begun_(opened.at("begun").as_bool()) {}

RunDir::RunDir(RunIdentity identity, const RunDirOptions& options)
    : identity_(std::move(identity)), path_(options.dir), force_(options.force) {
  if (path_.empty()) path_ = default_run_dir(identity_);
  try {
    enter();
    read_run(options);
  } catch (...) {
    leave();
    throw;
  }
}

// Makes the folder and takes its lock, without touching a folder that belongs to something else.
void RunDir::enter() {
  std::error_code code;
  if (std::filesystem::exists(path_, code)) {
    XRUN_CHECK(std::filesystem::is_directory(path_), "{}: is a file, not a run folder; {}",
               path_.string(), kElsewhere);
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      // --run may name any folder by mistake, such as a home folder: nothing is written into it.
      if (std::filesystem::exists(file("run.json")) || is_from_before_begin(name)) continue;
      throw UsageError(
          fmt::format("{}: holds {} and no run; {}", path_.string(), name, kElsewhere));
    }
  } else {
    try {
      make_dirs(path_);
    } catch (const Error& error) {
      throw Error(fmt::format("{}; {}", error.what(), kElsewhere));
    }
    // Only then may leave() remove it.
    made_folder_ = true;
  }
  try {
    const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
    for (;;) {
      lock_ = std::make_unique<FileLock>(file("lock"), false);
      if (lock_->held() || std::chrono::steady_clock::now() >= deadline) break;
      std::this_thread::sleep_for(kLockPoll);
    }
  } catch (const Error& error) {
    throw Error(fmt::format("{}; {}", error.what(), kElsewhere));
  }
  XRUN_CHECK(lock_->held(), "{}: another process is running in this folder; wait for it, or {}",
             path_.string(), kElsewhere);
}

void RunDir::read_run(const RunDirOptions& options) {
  record_ = Json::object();
  if (!std::filesystem::exists(file("run.json"))) return;
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
    if (done != nullptr && done->is_bool() && done->as_bool()) {
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
    if (!missing.empty()) notices_.push_back(missing + ": cut off, or damaged");
    note_repeated_steps();
    return;
  }
  // Nothing was saved there, so another recipe may start over, unless it would replace metrics.
  changed_ = identity_differences(before, identity_);
  // Its metrics would be set aside for another recipe's: that needs --force.
  if (!changed_.empty() && logged) {
    note_difference(ResumeItem::kIdentity, "", changed_);
  } else if (!changed_.empty()) {
    notices_.push_back(
        fmt::format("starting over with changes:\n{}", describe_differences(changed_)));
  }
  if (logged) {
    metrics_aside_ = unused_metrics_name(path_);
    notices_.push_back(
        fmt::format("the steps logged so far are kept in {}", metrics_aside_.filename().string()));
  }
  // The data may have changed, too, since nothing was trained on them.
  forget_inputs();
}

// Steps after the last save, which a kill lost, are cut from metrics.jsonl and repeated.
void RunDir::note_repeated_steps() {
  const Json* done = record_.find("finished");
  if (done != nullptr && done->is_bool() && done->as_bool()) return;
  const int64_t first = newest_checkpoint(checkpoints()).value_or(0);
  const int64_t last = last_logged_step(file("metrics.jsonl"));
  if (last < first) return;
  notices_.push_back(fmt::format("{} logged after the last save and {} repeated",
                                 last == first ? fmt::format("step {} was", first)
                                               : fmt::format("steps {} to {} were", first, last),
                                 last == first ? "is" : "are"));
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
  changed_ = identity_differences(before, identity_);
  longer_ = lengths_differ(before, identity_);
  if (!changed_.empty()) note_difference(ResumeItem::kIdentity, "", changed_);
  // Reported, since a changed save.every surprises less when it is seen.
  const auto free = free_differences(before, identity_);
  if (!free.empty()) note_difference(ResumeItem::kFree, "", free);
  if (is_interactive(record_) && !finished()) {
    notices_.push_back(
        "a prompt was opened in this run: what was typed there is in log.txt and not in the "
        "recipe, so from here on the recipe's own values train\n");
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
}

void RunDir::leave() noexcept {
  // Without the lock the folder may belong to another process that made it just now.
  if (begun_ || !made_folder_ || lock_ == nullptr || !lock_->held()) return;
  // begin() may have failed after run.json was in place (the sync of a full disk).
  std::error_code ignored;
  if (std::filesystem::exists(file("run.json"), ignored)) return;
  log_.reset();
  for (const std::string_view name : kBeforeBegin) ::unlink(file(name).c_str());
  // Fails if anything else is in it, which is intended.
  ::rmdir(path_.c_str());
}

RunDir::~RunDir() { leave(); }

RunDir::RunDir(RunDir&&) noexcept = default;

bool RunDir::finished() const {
  const Json* finished = record_.find("finished");
  return resuming_ && !longer_ && finished != nullptr && finished->is_bool() && finished->as_bool();
}

void RunDir::begin() {
  if (recorded_) return;
  if (writes_) write_identity();
  record_.set("format", kRunFormat);
  record_.set("recipe", identity_.recipe_name);
  record_.set("hash", short_hash(identity_));
  record_.set("binary", identity_.binary);
  record_.set("machine", identity_.machine);
  record_.set("environment", run_environment());
  // Relative paths of the settings are read from there.
  std::error_code removed;
  record_.set("folder", std::filesystem::current_path(removed).string());
  if (!resuming_) record_.set("started", time_text(kDateTime));
  if (resuming_) add_resume();
  record_.set("finished", false);
  if (record_.find("steps_limit") != nullptr) record_.set("steps_limit", Json());
  recorded_ = true;
  write_record();
  begun_ = true;
  if (!ledger_.is_null()) write_ledger(ledger_);
}

void RunDir::write_identity() {
  // First: a kill after this line leaves the steps under their new name, never overwritten.
  if (!metrics_aside_.empty()) rename_durable(file("metrics.jsonl"), metrics_aside_);
  ::unlink(file(kRunDigests).c_str());  // of an end that is passed
  // The text that was loaded, not the file: an editor may have saved since.
  write_file_atomic(file("recipe.lua"), identity_.recipe_text);
  Json config = Json::object();
  config.set("config", identity_.config);
  config.set("origins", identity_.origins);
  Json sets = Json::array();
  for (const std::string& set : identity_.sets) sets.push_back(set);
  config.set("sets", std::move(sets));
  write_file_atomic(file("config.json"), dump_json(config, indented()) + "\n");
}

void RunDir::add_resume() {
  Json fields = Json::array();
  for (const auto& difference : changed_) fields.push_back(difference.path);
  Json resume = Json::object();
  resume.set("at", time_text(kDateTime));
  resume.set("changed", std::move(fields));
  Json resumes = Json::array();
  if (const Json* earlier = record_.find("resumes")) resumes = *earlier;
  resumes.push_back(std::move(resume));
  record_.set("resumes", std::move(resumes));
}

void RunDir::write_record() {
  // begin() writes it, unless the resume is refused first.
  if (!writes_ || (resuming_ && !recorded_)) return;
  write_file_atomic(file("run.json"), dump_json(record_, indented()) + "\n");
}

void RunDir::write_ledger(const Json& ledger) {
  if (!writes_) return;
  if (resuming_ && !recorded_) {
    ledger_ = ledger;  // begin() writes it
    return;
  }
  write_file_atomic(file("ledger.json"), dump_json(ledger, indented()) + "\n");
}

Ledger RunDir::earlier_ledger() const {
  const std::string path = file("ledger.json");
  if (!resuming_ || !std::filesystem::exists(path)) return {};
  try {
    return Ledger::from_json(read_json(path));
  } catch (const Error& error) {
    throw Error(fmt::format(
        "{}: cannot be read ({}); delete the file to continue without the sources that it lists",
        path, error.what()));
  }
}

void RunDir::log_line(std::string_view text) {
  if (!writes_) return;
  if (log_ == nullptr) {
    log_ = std::make_unique<FileWriter>(file("log.txt"), FileWriter::Mode::kAppend);
  }
  const std::string time = time_text("%H:%M:%S");
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    log_->write(fmt::format("{}  {}\n", time, text.substr(at, end - at)));
    at = end + 1;
  }
  log_->flush();  // a kill must not lose the lines that explain it
}

}  // namespace xrun
