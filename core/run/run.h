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
  // The end of a phase is saved whatever the next two say.
  int64_t save_every = 0;   // bodies between checkpoints; 0: off
  double save_minutes = 0;  // minutes between checkpoints, taken when a body ends; 0: off
  int64_t save_keep = 2;    // the newest checkpoints, which are not removed
  double stop_minutes = 0;  // after `began`: the run saves and stops when a body ends; 0: off
  std::chrono::steady_clock::time_point began = {};
  int64_t steps_limit = -1;  // --steps: bodies of the whole run; -1: no limit
  bool saves = true;         // false: a preview, which leaves nothing for the user
  // The clock of save_minutes and stop_minutes.
  std::chrono::steady_clock::time_point (*now)() = std::chrono::steady_clock::now;
  // The processes of the run, which all make the same calls; the first one writes. null: this one
  // alone.
  Ranks* ranks = nullptr;
};

// The plan of one loop, made before it starts.
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
  // Returns true while the recipe runs again through what the checkpoint already holds: its metrics
  // are dropped, and an evaluation may be skipped.
  bool replaying() const { return step_ < resume_step_; }
  // The results of evaluations outside bodies are saved with the run, so that a replayed recipe
  // makes the same decisions from them. remember() adds one. While replaying, recall() returns the
  // next one, or nothing if it has another step or name (a recipe changed under --force).
  void remember(const std::string& what, MetricSpan metrics);
  MetricList recall(const std::string& what);

  // Notes an input of the run in run.json. On a resume, another digest is a difference (resume.h).
  //   kind      "data" or "modules"
  //   key       the input's name in run.json
  //   what      its name in the report of a difference
  //   identity  has a "digest" and, for data, the "keys" behind it (DataSet::key_documents)
  void check_input(std::string_view kind, const std::string& key, const std::string& what,
                   const Json& identity);

  // Starts the next loop. A body that is still open (after a `break` in Lua) is ended first, with
  // run.state `state`, and so is its loop, permanently. If the checkpoint holds the whole phase, it
  // is skipped: begin_body returns nullopt at once. Differences (resume.h) are another plan of
  // data, fewer steps, and more steps of a phase that a later one follows. Throws UsageError if
  // --steps is below the steps that are saved.
  void begin_phase(const PhasePlan& plan, const Json& state);
  // Ends an open body, then opens the next one. Returns nullopt if the loop is over: the phase is
  // done, stop() was called, or --steps is reached. `state` is the present run.state, which an
  // error before this body's update saves.
  std::optional<LoopBody> begin_body(const Json& state);
  // Returns what begin_body would return now, between two bodies.
  std::optional<LoopBody> upcoming() const;
  int64_t phase_step() const;  // bodies done of the phase begun last
  // The saved number of bodies of the phase begun last, if it has another number now; 0 otherwise.
  int64_t earlier_phase_steps() const { return earlier_phase_steps_; }
  // Returns how many of the steps logged after the checkpoint (RunDir::unsaved_steps) this resume
  // does again: fewer than all if --steps or a shorter loop ends it earlier. Requires begin_phase
  // of the last saved loop.
  int64_t repeated_steps() const;
  // Counts a phase as done without running it; previews call this in place of begin_phase.
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
  // The state that this process or the checkpoint of the resume set last; null: none was set in
  // this loop.
  Json sources() const { return sources_ ? sources_() : Json(); }
  // Adds metrics to the object of the current step (metrics_log.h).
  void log(MetricSpan metrics);
  // Writes the body's metrics, then saves if save_every, save_minutes, the phase's last step,
  // stop(), --steps or an interrupt asks for it. Then throws Interrupted if an interrupt was
  // requested, or (with kTimeIsUp) if stop_minutes are over on any rank and the loop has steps
  // left.
  void end_body(const Json& state);
  bool in_body() const { return in_body_; }
  // Ends the open body and, permanently, its loop: a `break` left it.
  void leave_loop(const Json& state);

  // Returns true if no body is open and the last one was run by this process in this loop.
  bool can_take_back() const { return !in_body_ && ended_body_; }
  // Goes back before the last body: the next begin_body opens it again and its line of metrics is
  // replaced. The caller restores the objects and run.state (body_state()). Throws Error unless
  // can_take_back(), which is false until the next body has ended.
  void take_back();
  const SavedObjects& saved() const { return saved_; }
  // The line of metrics written last; null before the first one.
  const Json& last_metrics() const { return last_metrics_; }

  // Ends this loop after this body; no later loop starts. A stopped run is finished; a resume
  // with more steps or, under --force, with other settings trains it further.
  void stop(std::string reason);
  // Returns true if raising an interrupt right now loses nothing that end_body would have kept: no
  // body is open or its update is not done. After 2 s of waiting it is true anyway, except with
  // ranks, whose clocks differ.
  bool may_interrupt_now();

  // Called after an error or an interrupt. If the open body's only update was done (see
  // begin_update), saves the state after it with `state`; else the state before the body with
  // run.state as of its beginning. Before the first update it saves nothing, since a new start
  // would repeat everything. Returns the folder of the last checkpoint, an empty path if there is
  // none. Throws Error if saving fails.
  //   message  the error, for ranks that wait for this one; used where ranks hold state in ranges
  std::filesystem::path save_after_error(const Json& state, const std::string& message = "");
  // Updates of the open body that save_after_error gave up; a resume repeats them.
  int64_t dropped_updates() const { return dropped_updates_; }
  // run.state at the beginning of the body that is open or was open last.
  const Json& body_state() const { return body_state_; }
  // Called when the recipe is done. Writes the last metrics, saves if the last step is not saved,
  // and marks run.json finished unless --steps ended the run.
  void finish(const Json& state);

  // Calls `write`, which makes files for the user, on the first rank; all ranks fail if it fails.
  // A run that saves nothing returns false without calling it.
  bool write_out(std::string_view what, const std::function<void()>& write) const;
  // Writes the failed batch of the open body's step and returns the text of save_failed_batch. A
  // run that saves nothing returns "" and writes no file. One rank may call it alone.
  std::string keep_failed_batch(std::span<const PackedBatch* const> packs,
                                const RowName& name) const;

  // The folder of the checkpoint saved or resumed from last; empty if there is none.
  const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }
  // Notes a folder that a model was exported to; a folder noted again moves to the end.
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
  std::unique_ptr<MetricsLog> metrics_;  // opened by the first write
  RunPosition at_;                       // its phases: saved ones and those begun
  size_t phases_begun_ = 0;
  int64_t step_ = 0;
  int64_t resume_step_ = -1;
  int64_t earlier_phase_steps_ = 0;
  Json state_;
  Json body_state_;                               // run.state at the body's beginning
  std::function<Json()> sources_, body_sources_;  // of the loop: now, and when the body began
  bool alone_ = false;  // in save_after_error, which the other ranks may not have reached
  bool in_body_ = false;
  bool wrote_body_ = false;  // the open body's line of metrics is written
  int64_t updates_ = 0;      // of the open body
  int64_t dropped_updates_ = 0;
  bool began_update_ = false;     // in any body of this process
  bool updates_known_ = false;    // a body of this loop has ended after an update, in this process
  bool several_updates_ = false;  // a body of this loop has had more than one
  StateCopy body_copy_;           // at the body's beginning; empty if none was taken
  size_t recalled_ = 0;
  std::chrono::steady_clock::time_point saved_at_;  // the last save, or the start of this process
  std::filesystem::path last_checkpoint_;
  std::vector<ExportedFolder> exported_;
  std::chrono::steady_clock::time_point body_began_;
  std::optional<std::chrono::steady_clock::time_point> waiting_since_;
  double seconds_ = 0;
  int64_t tokens_ = 0;
  Json last_train_, last_valid_, last_metrics_;
  bool ended_body_ = false;         // the last body has ended, and nothing has begun since
  MetricList before_body_;          // logged before the last body began, for its line
  std::string stopped_before_;      // at_.stopped when the last body began
  bool continues_stopped_ = false;  // this process resumed a run that its recipe had stopped
};

}  // namespace xrun
