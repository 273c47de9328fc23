#pragma once
// The folder of one run: its files, its lock, and the run that may be resumed in it.
//
//   runs/<recipe>-<short hash>/
//     recipe.lua config.json run.json ledger.json log.txt metrics.jsonl failed_batch.json
//     tb/ checkpoints/ hf/ lock digests.json (at the end)

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"
#include "core/base/file_lock.h"
#include "core/base/json.h"
#include "core/data/rows/ledger.h"
#include "core/run/resume.h"

namespace xrun {

class Ranks;

struct RunDirOptions {
  std::filesystem::path dir;  // --run; empty: runs/<recipe>-<short hash> below the current folder
  bool resume = false;        // --resume
  bool force = false;         // --force: resume in spite of differences
  Ranks* ranks = nullptr;     // the processes of the run; null: this one alone
};

// An opened and locked run folder. Move-only; the lock lasts as long as the object.
//
// Opening makes the folder, so that an unwritable path is an error before any work. Until begin()
// nothing ran there, and the destructor removes what opening made. A folder without a checkpoint
// and without metrics (a kill before begin(), an error in the first body) is reused without
// --resume. Metrics are never overwritten: a resume that finds no checkpoint keeps those of the
// first start as metrics.jsonl.1 (.2, ...) and begins again.
//
// With several ranks, the first opens, locks and writes the folder. The others get its run.json and
// may read the folder; what they would write is dropped.
class RunDir {
 public:
  // Opens and locks the folder; resumed_run.h finds it for a resume. With resume, a folder without
  // a begun run or without a checkpoint starts from the beginning (of another recipe too, with a
  // notice, unless steps were logged). Throws, with the fix,
  //   UsageError  the folder holds a run and resume is false; it holds other files; it is a file;
  //               a newer xrun made the run
  //   Error       it cannot be written; another process uses it; the ranks do not share it; the
  //               resume is refused (resume.h)
  static RunDir open(RunIdentity identity, RunDirOptions options);
  ~RunDir();
  RunDir(RunDir&&) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }
  std::filesystem::path hf() const { return path_ / "hf"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path tb() const { return path_ / "tb"; }

  bool writes() const { return writes_; }      // false on ranks after the first
  bool resuming() const { return resuming_; }  // a begun run is being continued
  // Returns true if the run has done all its `steps` or `epochs` or its recipe has stopped it,
  // unless this resume exports it in another type.
  bool finished() const;
  // Returns true if a run that its recipe stopped may go on: its length has changed since, or,
  // under --force, its recipe or its settings have.
  bool may_continue() const { return longer_ || other_settings_; }
  // The steps in metrics.jsonl that are newer than the newest checkpoint, lost in a kill. 0 on
  // ranks after the first.
  int64_t unsaved_steps() const { return unsaved_steps_; }
  // Notices before the first step, such as differences that do not refuse the resume.
  const std::vector<std::string>& notices() const { return notices_; }
  void add_notice(std::string notice) { notices_.push_back(std::move(notice)); }
  // Refuses the resume or adds a notice, as resume_notice says.
  void note_difference(ResumeItem item, const std::string& subject,
                       const std::vector<Difference>& differences);
  const RunIdentity& identity() const { return identity_; }

  // Removes temporary files that a kill left, then writes recipe.lua, config.json and run.json.
  // Called by Run before its first step, and on a resume when nothing can refuse it any more;
  // idempotent. Until then a resume changes no file but log.txt: write_record and write_ledger only
  // keep what they are given.
  void begin();

  // Called after an error or interrupt before the end of the first body. Removes what a start
  // writes until then (the run's description, empty metrics, answers of run:sample and run:choices)
  // and takes begin() back, so that the destructor removes the folder. Does nothing if opening did
  // not make the folder, or if it holds anything else.
  void undo_begin();

  // run.json, an object: {"format", "recipe", "hash", "binary", "machine", "environment", "dtype",
  // "started", "date", "inputs", "data", "measured", "memory", "resumes", "finished", "stopped",
  // "steps", "steps_limit" (of a run that --steps cut), "interactive", "untrusted" (the
  // process had limits), "folder" (the working folder), "recipe_file", "model_folder"}. Changes
  // reach the disk by write_record.
  Json& record() { return record_; }
  const Json& record() const { return record_; }
  void write_record();

  // ledger.json, indented.
  void write_ledger(const Json& ledger);
  // Returns the ledger.json of a resumed run, empty if there is none. Throws Error that names the
  // file and the fix if it cannot be read.
  Ledger earlier_ledger() const;
  // Appends the time of day, the text and a newline to log.txt.
  void log_line(std::string_view text);

 private:
  static constexpr std::string_view kElsewhere = "choose another folder with --run DIR";

  RunDir(RunIdentity identity, const RunDirOptions& options);
  RunDir(RunIdentity identity, const Json& opened);  // opened by the first rank
  Json opened() const;
  void enter();
  void leave() noexcept;
  // run_dir_resume.cpp
  void read_run(const RunDirOptions& options);
  int64_t count_unsaved_steps() const;
  void compare(const RunIdentity& before);
  void export_again();
  void forget_inputs();
  // run_dir.cpp
  void remove_temporaries();
  void write_identity();
  void add_resume();

  RunIdentity identity_;
  std::filesystem::path path_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<FileWriter> log_;
  Json record_;
  Json ledger_;  // written when a resume begins; null: none was given
  std::vector<std::string> notices_;
  std::vector<std::string> changes_;  // of this resume: "config.steps", "recipe.lua:12", ...
  bool forced_ = false;               // without --force, one of them would refuse the resume
  bool writes_ = true;
  bool resuming_ = false;
  bool force_ = false;
  bool longer_ = false;          // steps or epochs have changed
  bool other_settings_ = false;  // the recipe, its configuration or xrun
  bool exports_again_ = false;   // the run is finished, and export.dtype has changed
  bool begun_ = false;           // run.json exists
  bool recorded_ = false;        // this object wrote it
  bool made_folder_ = false;
  int64_t unsaved_steps_ = 0;
  std::filesystem::path metrics_aside_;  // new name for metrics of a start without a checkpoint
};

}  // namespace xrun
