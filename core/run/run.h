#pragma once
// A run: the phases and bodies of a recipe's loops, their metrics and checkpoints, and the resume.
//
// One caller drives it, in this order (a `run:steps` loop is a phase, one turn of it a body):
//   Run run(RunDir::open(...), settings, saved);    // restores the objects when resuming
//   run.begin_phase(plan, state);
//   while (auto body = run.begin_body(state)) {      // nullopt: the loop is over, or skipped
//     ... run.begin_update(); update; run.mark_updated(); run.log(metrics) ...
//     run.end_body(state);                           // writes, saves, throws Interrupted
//   }
//   run.finish(state);                               // when the recipe has returned
// and when anything throws meanwhile: run.save_after_error(state).

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/run/checkpoint.h"
#include "core/run/failed_batch.h"
#include "core/run/metrics_log.h"
#include "core/run/record/run_summary.h"
#include "core/run/run_dir.h"
#include "core/run/run_position.h"
#include "core/run/state_copy.h"

namespace xrun {

class Ranks;

struct RunSettings {
  int64_t save_every = 0;   // bodies between checkpoints; 0: off
  double save_minutes = 0;  // minutes between checkpoints, taken when a body ends; 0: off
  int64_t save_keep = 2;    // each phase's last body is saved whatever these say
  double stop_minutes = 0;  // after `began`, when a body ends, the run saves and stops; 0: off
  std::chrono::steady_clock::time_point began = {};
  int64_t steps_limit = -1;  // --steps: bodies of the whole run; -1: no limit
  bool saves = true;         // false: a preview, which leaves nothing for the user
  std::chrono::steady_clock::time_point (*now)() = std::chrono::steady_clock::now;  // for minutes
  // The processes of the run, which drive it alike; the first one writes. null: this one alone.
  Ranks* ranks = nullptr;
};

// One loop, known before it starts.
struct PhasePlan {
  int64_t steps = 0;  // bodies of the whole phase
  Json data;          // identifies its data: an object of cache keys and the fields they cover
};

// One turn of a loop.
struct LoopBody {
  int64_t step = 0;        // bodies of the run before it; the recipe's `step`, metrics' "step"
  int64_t phase_step = 0;  // bodies of its phase done before it; the index into its data
};

class Run {
 public:
  // Begins the folder. When resuming, loads and verifies the latest checkpoint and restores
  // `saved`; a run without one starts from the beginning. Throws Error.
  Run(RunDir dir, RunSettings settings, SavedObjects saved);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  RunDir& dir() { return dir_; }
  const RunSettings& settings() const { return settings_; }
  bool resumed() const { return resume_step_ >= 0; }
  int64_t resume_step() const { return resume_step_; }  // bodies done before the resume; -1: fresh
  const Json& state() const { return state_; }          // run.state as saved; null if fresh
  int64_t step() const { return step_; }                // bodies done
  // True while the recipe runs again through what the checkpoint already holds: its metrics are
  // dropped, and an evaluation may be skipped.
  bool replaying() const { return step_ < resume_step_; }
  // The results of evaluations outside bodies are saved with the run, so that a recipe that decides
  // by them decides alike when it is replayed. remember() adds one; recall() returns the next one
  // while replaying, or nothing if that was of another step or name (a recipe changed under
  // --force).
  void remember(const std::string& what, MetricSpan metrics);
  MetricList recall(const std::string& what);

  // Notes an input of the run in run.json (`kind` "data" or "modules", `key` its name there):
  // identity has a "digest" and, for data, the "keys" behind it (DataSet::key_documents).
  // On a resume another digest is a difference of `what` (resume.h).
  void check_input(std::string_view kind, const std::string& key, const std::string& what,
                   const Json& identity);

  // Starts the next loop. A body still open (a `break` in Lua) is ended, and its loop with it for
  // good, with run.state `state`. A phase that the checkpoint holds whole is skipped: begin_body
  // returns nullopt at once. Another plan of data, fewer steps, or more steps of a phase that a
  // later one follows are differences (resume.h). Throws UsageError if --steps is below the steps
  // that are saved.
  void begin_phase(const PhasePlan& plan, const Json& state);
  // Ends an open body, then opens the next one, or returns nullopt where the loop ends: the phase
  // is done, stop() was called, or --steps is reached. `state` is run.state as of now; it is what
  // an error before this body's update saves.
  std::optional<LoopBody> begin_body(const Json& state);
  // Returns what begin_body would return now, between two bodies.
  std::optional<LoopBody> upcoming() const;
  int64_t phase_step() const;  // bodies done of the phase begun last
  // The number of bodies that the phase begun last had when it was saved, if it has another number
  // now; 0 otherwise.
  int64_t earlier_phase_steps() const { return earlier_phase_steps_; }
  // After begin_phase of the last saved loop: of the steps that were logged after the checkpoint
  // (RunDir::unsaved_steps), those that this resume does again. It may end before them, at --steps
  // or in a loop that has become shorter.
  int64_t repeated_steps() const;
  // Counts a phase as done without its bodies, in place of begin_phase; for previews.
  void pass_phase(const PhasePlan& plan);
  // Counts bodies of the phase begun last as done; for previews.
  void pass_bodies(int64_t count);
  // Called before and after each update of a body. A body is the unit of saving, and only its end
  // tells how many updates it has. So an error after an update
  //   - in the first body of a loop (of this process) drops the body: the checkpoint at its
  //     beginning remains, or nothing is saved yet;
  //   - in a loop whose bodies had one update each saves the state after it;
  //   - in a loop whose bodies had several restores the copy in host memory that each such body
  //     begins with. Without room for a copy the last checkpoint remains.
  void begin_update();
  void mark_updated();
  // Returns true if bodies ended and none of them began an update; false after a resume, which does
  // not know the earlier bodies.
  bool never_updated() const { return !resumed() && step_ > 0 && !began_update_; }
  // Host memory of the copy; 0 if there is none.
  int64_t body_copy_bytes() const { return body_copy_.bytes(); }
  void count_tokens(int64_t tokens) { tokens_ += tokens; }
  // Sets the state of this loop's sources (a cursor, groups of rollouts that wait) after they gave
  // the open body its data. The next checkpoint holds it; a checkpoint of the body's beginning
  // holds the state of the previous body. Calls `sources` only for a checkpoint or for sources()
  // below.
  void set_sources(std::function<Json()> sources) { sources_ = std::move(sources); }
  // The state set last, of this process or of the checkpoint that the run was resumed from; null:
  // none was set in this loop.
  Json sources() const { return sources_ ? sources_() : Json(); }
  // Merges into the object of the current step (metrics_log.h).
  void log(MetricSpan metrics);
  // Writes the body's metrics, then saves if save_every, save_minutes, the phase's last step,
  // stop(), --steps or an interrupt asks for it. Throws Interrupted after saving if an interrupt
  // was requested, or, with kTimeIsUp, if stop_minutes are over on any rank and the loop has steps
  // left.
  void end_body(const Json& state);
  bool in_body() const { return in_body_; }
  // Ends the open body and, permanently, its loop: a `break` left it.
  void leave_loop(const Json& state);

  // Returns true if the last body can be taken back: no other one is open, and it was of this loop
  // and of this process.
  bool can_take_back() const { return !in_body_ && ended_body_; }
  // Goes back before the last body: the next begin_body opens it again and its line of metrics is
  // replaced. The caller restores the objects and run.state (body_state()). Once per body. Throws
  // Error if it cannot be done.
  void take_back();
  const SavedObjects& saved() const { return saved_; }
  // The line of metrics written last, null before.
  const Json& last_metrics() const { return last_metrics_; }

  // Ends this loop after this body; no later loop starts. A stopped run is finished; a resume
  // with more steps or, under --force, with other settings trains it further.
  void stop(std::string reason);
  // Returns true if raising an interrupt right now loses nothing that end_body would have kept: no
  // body is open or its update is not done. After 2 s of waiting it is true anyway, except with
  // ranks, whose clocks differ.
  bool may_interrupt_now();

  // After an error or an interrupt inside a body: saves the state before the body with run.state as
  // of its beginning, or the state after it with `state` if its only update was done (see
  // begin_update).
  // Returns the folder of the last checkpoint, an empty path if nothing is saved: before the first
  // update a new start would repeat everything. Throws Error if saving fails. With ranks whose
  // state is in ranges, `message` is the error, for those that wait for this one.
  std::filesystem::path save_after_error(const Json& state, const std::string& message = "");
  // Updates of the open body that save_after_error gave up; a resume repeats them.
  int64_t dropped_updates() const { return dropped_updates_; }
  // run.state at the beginning of the body that is open or was open last.
  const Json& body_state() const { return body_state_; }
  // Called when the recipe is done: writes the last metrics, saves if the last step is not saved,
  // and marks run.json finished unless --steps ended the run.
  void finish(const Json& state);

  // Calls `write`, which makes files for the user, on the first rank; all ranks fail if it does.
  // Returns false, without a call, in a run that saves nothing.
  bool write_out(std::string_view what, const std::function<void()>& write) const;
  // Returns save_failed_batch of the open body's step; "", without a file, in a run that saves
  // nothing. By one rank without the others.
  std::string keep_failed_batch(std::span<const PackedBatch* const> packs,
                                const RowName& name) const;

  // The folder of the checkpoint saved or resumed from last; empty if there is none.
  const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }
  // Notes a folder that a model was exported to; the same one again moves it to the end.
  void add_exported(const std::filesystem::path& path, const std::string& dtype);
  RunSummary summary() const;
  double seconds() const { return seconds_; }  // in bodies, of this process

 private:
  void restore();
  void copy_state();
  void check_phase(size_t index, const PhasePlan& plan);
  bool phase_is_over() const;
  bool limit_reached() const;
  bool cut_by_limit() const;
  MetricsLog& metrics();
  void write_metrics();
  void close_body();
  bool save_is_due() const;
  bool time_is_up() const;
  void save(const Json& state);
  void save_whole_steps(const Json& state);  // the open body is closed, or undone
  bool average_in_use();
  void share_again();  // after Stopped::kApart
  // Runs `work`; with ranks all fail if one does, unless only this rank is in save_after_error.
  void together(std::string_view what, const std::function<void()>& work);

  RunDir dir_;
  RunSettings settings_;
  SavedObjects saved_;
  CheckpointStore checkpoints_;
  std::unique_ptr<MetricsLog> metrics_;  // opened by what is first written after the resume
  RunPosition at_;                       // its phases: saved ones and those begun
  size_t phases_begun_ = 0;
  int64_t step_ = 0;
  int64_t resume_step_ = -1;
  int64_t earlier_phase_steps_ = 0;
  Json state_;
  Json body_state_;                               // run.state at the body's beginning
  std::function<Json()> sources_, body_sources_;  // the loop's; the second as the body began
  bool alone_ = false;  // in save_after_error, which the other ranks may not have reached
  bool in_body_ = false;
  bool wrote_body_ = false;  // its line of metrics
  int64_t updates_ = 0;      // of the open body
  int64_t dropped_updates_ = 0;
  bool began_update_ = false;     // in any body of this process
  bool updates_known_ = false;    // a body of this loop has ended after an update, in this process
  bool several_updates_ = false;  // a body of this loop has had more than one
  StateCopy body_copy_;           // at the body's beginning; empty if none was taken
  size_t recalled_ = 0;
  std::chrono::steady_clock::time_point saved_at_;  // or the run's start in this process
  std::filesystem::path last_checkpoint_;
  std::vector<ExportedFolder> exported_;
  std::chrono::steady_clock::time_point body_began_;
  std::optional<std::chrono::steady_clock::time_point> waiting_since_;
  double seconds_ = 0;
  int64_t tokens_ = 0;
  Json last_train_, last_valid_, last_metrics_;
  bool ended_body_ = false;         // the last body was ended, and nothing began since
  MetricList before_body_;          // logged before the last body began, for its line
  std::string stopped_before_;      // the reason to stop when it began
  bool continues_stopped_ = false;  // this process resumed a run that its recipe had stopped
};

}  // namespace xrun
