// Invariant: a folder holds a run exactly if it holds run.json, which begin() writes after
// recipe.lua and config.json. Everything is written while the lock is held, by the first rank.

#include "core/run/run_dir.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/file_lock.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/run/checkpoint.h"
#include "core/run/machine.h"
#include "core/run/rank_check.h"
#include "core/run/record/run_digests.h"
#include "core/run/record/run_files.h"
#include "core/run/record/run_record.h"

namespace xrun {

namespace {

// A killed process holds its lock until its memory is freed: seconds, with gigabytes on a busy
// machine.
constexpr auto kLockPatience = std::chrono::seconds(5);
constexpr auto kLockPoll = std::chrono::milliseconds(50);
constexpr const char* kDateTime = "%Y-%m-%dT%H:%M:%S%z";
constexpr std::array<std::string_view, 5> kBeforeBegin = {"lock", "log.txt", "ledger.json",
                                                          "recipe.lua", "config.json"};

// True for `config.json.tmp123` and `.hf.tmp123`: files of a process that was killed while it
// wrote.
bool is_temporary(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kWritten = {
      "log.txt",           "recipe.lua", "config.json", "run.json", "ledger.json",
      "failed_batch.json", kRunDigests,  ".hf",         "lock"};
  const size_t end = name.rfind(".tmp");
  if (end == std::string_view::npos) return false;
  const std::string_view id = name.substr(end + std::string_view(".tmp").size());
  return std::find(kWritten.begin(), kWritten.end(), name.substr(0, end)) != kWritten.end() &&
         !id.empty() && id.find_first_not_of("0123456789") == std::string_view::npos;
}

// True for files that a process killed before begin() may have left.
bool is_from_before_begin(std::string_view name) {
  return std::find(kBeforeBegin.begin(), kBeforeBegin.end(), name) != kBeforeBegin.end() ||
         is_temporary(name);
}

// The folders that a start may fill before the end of its first body, and the names of their files.
constexpr std::pair<std::string_view, std::string_view> kStartFolders[] = {
    {"checkpoints", ""},
    {"tb", "events.out.tfevents."},
    {"samples", "step_"},
    {"choices", "step_"}};

// Returns true if an entry of a run's folder is one that a start makes before the end of its first
// body, and adds those that leave() does not know to `made`, files before their folder.
bool add_start_files(const std::filesystem::path& path, std::vector<std::filesystem::path>& made) {
  const std::string name = path.filename().string();
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, code);
  if (name == "run.json" || is_from_before_begin(name)) return true;
  const auto folder = std::find_if(std::begin(kStartFolders), std::end(kStartFolders),
                                   [&](const auto& one) { return one.first == name; });
  if (folder != std::end(kStartFolders) && std::filesystem::is_directory(status)) {
    for (const std::filesystem::path& file : list_folder(path)) {
      const bool known = !folder->second.empty() &&
                         file.filename().string().starts_with(folder->second) &&
                         std::filesystem::is_regular_file(symlink_status(file, code));
      if (!known) return false;
      made.push_back(file);
    }
  } else {
    // A file with a line has a step.
    const bool unlogged = name == "metrics.jsonl" && std::filesystem::is_regular_file(status) &&
                          std::filesystem::is_empty(path, code);
    if (!unlogged) return false;
  }
  made.push_back(path);
  return true;
}

std::string time_text(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

}  // namespace

RunDir RunDir::open(RunIdentity identity, RunDirOptions options) {
  std::optional<RunDir> dir;
  const std::string opened = from_first_rank(options.ranks, "the run's folder", [&] {
    dir.emplace(RunDir(identity, options));
    return dump_json(dir->opened());
  });
  if (!dir) dir.emplace(RunDir(std::move(identity), parse_json(opened, "the run's folder")));
  check_shared_folder(options.ranks, dir->path());
  return std::move(*dir);
}

Json RunDir::opened() const {
  return Json(Json::Object{{"path", path_.string()},
                           {"record", record_},
                           {"resuming", resuming_},
                           {"force", force_},
                           {"longer", longer_},
                           {"other_settings", other_settings_},
                           {"exports_again", exports_again_},
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
      other_settings_(opened.at("other_settings").as_bool()),
      exports_again_(opened.at("exports_again").as_bool()),
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
    if (!is_folder(path_)) {
      throw UsageError(
          fmt::format("{}: is a file, not a run folder; {}", path_.string(), kElsewhere));
    }
    for (const std::filesystem::path& entry : list_folder(path_)) {
      const std::string name = entry.filename().string();
      // --run may name any folder by mistake, such as a home folder: nothing is written into it.
      if (path_exists(file("run.json")) || is_from_before_begin(name)) continue;
      throw UsageError(
          fmt::format("{}: holds {} and no run; {}", path_.string(), name, kElsewhere));
    }
  } else {
    try {
      make_dirs(path_);
    } catch (const Error& error) {
      throw Error(fmt::format("{}; {}", error.what(), kElsewhere));
    }
    // Only a folder that was made here may be removed by leave().
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
  const bool stopped = !text_member(record_, "stopped").empty();
  return resuming_ && !longer_ && !exports_again_ && !(stopped && other_settings_) &&
         finished != nullptr && finished->is_bool() && finished->as_bool();
}

void RunDir::begin() {
  if (recorded_) return;
  if (writes_) {
    remove_temporaries();
    write_identity();
  }
  record_.set("format", kRunFormat);
  record_.set("recipe", identity_.recipe_name);
  record_.set("hash", short_hash(identity_));
  record_.set("binary", identity_.binary);
  record_.set("machine", identity_.machine);
  record_.set("environment", run_environment());
  // Later uses of the folder's recipe.lua must not trust it either.
  if (file_access_limited()) record_.set("untrusted", true);
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

void RunDir::undo_begin() {
  if (!begun_ || !made_folder_) return;
  try {
    std::vector<std::filesystem::path> made;
    for (const std::filesystem::path& path : list_folder(path_)) {
      if (!add_start_files(path, made)) return;
    }
    for (const std::filesystem::path& path : made) ::remove(path.c_str());
  } catch (const Error&) {
    return;  // a folder that cannot be listed stays
  }
  begun_ = ::unlink(file("run.json").c_str()) != 0;
}

// The lock is held, so the writer is dead.
void RunDir::remove_temporaries() {
  for (const std::filesystem::path& path : list_folder(path_)) {
    std::error_code ignored;
    const std::string name = path.filename().string();
    if (!is_temporary(name)) continue;
    const bool is_file = std::filesystem::is_regular_file(symlink_status(path, ignored));
    // An unfinished export alone is a folder.
    if (is_file || name.starts_with(".hf")) std::filesystem::remove_all(path, ignored);
  }
}

void RunDir::write_identity() {
  // First: a kill after this line leaves the steps under their new name, never overwritten.
  if (!metrics_aside_.empty()) rename_durable(file("metrics.jsonl"), metrics_aside_);
  ::unlink(file(kRunDigests).c_str());  // they describe an earlier end of the run
  // The text that was loaded, not the file: an editor may have saved since.
  write_file_atomic(file("recipe.lua"), identity_.recipe_text);
  Json config = Json::object();
  config.set("config", identity_.config);
  config.set("origins", identity_.origins);
  Json sets = Json::array();
  for (const std::string& set : identity_.sets) sets.push_back(set);
  config.set("sets", std::move(sets));
  write_file_atomic(file("config.json"), dump_json(config, kIndentedJson) + "\n");
}

void RunDir::add_resume() {
  Json fields = Json::array();
  for (const std::string& change : changes_) fields.push_back(change);
  Json resume = Json::object();
  resume.set("at", time_text(kDateTime));
  resume.set("step", newest_checkpoint(checkpoints()).value_or(0));
  resume.set("forced", forced_);
  resume.set("changed", std::move(fields));
  Json resumes = Json::array();
  if (const Json* earlier = record_.find("resumes")) resumes = *earlier;
  resumes.push_back(std::move(resume));
  record_.set("resumes", std::move(resumes));
}

void RunDir::write_record() {
  // begin() writes it, unless the resume is refused first.
  if (!writes_ || (resuming_ && !recorded_)) return;
  write_file_atomic(file("run.json"), dump_json(record_, kIndentedJson) + "\n");
}

void RunDir::write_ledger(const Json& ledger) {
  if (!writes_) return;
  if (resuming_ && !recorded_) {
    ledger_ = ledger;  // begin() writes it
    return;
  }
  write_file_atomic(file("ledger.json"), dump_json(ledger, kIndentedJson) + "\n");
}

Ledger RunDir::earlier_ledger() const {
  const std::string path = file("ledger.json");
  if (!resuming_ || !path_exists(path)) return {};
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
