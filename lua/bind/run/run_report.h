#pragma once
// The lines of a run on its console and in log.txt: the report before step 0, a resume, progress,
// evaluations, the ledger, the summary at the end.

#include <cstdint>
#include <optional>
#include <string>

#include "core/console/terminal/progress.h"
#include "core/data/rows/ledger.h"
#include "core/rollout/rollout_notices.h"
#include "core/run/run.h"
#include "core/train/step.h"
#include "lua/bind/run/memory_report.h"
#include "lua/bind/session.h"

namespace xrun {

class RunMemory;

class RunReport {
 public:
  // All outlive it. `recipe` is the file, as the user gave it.
  RunReport(Session& session, Run& run, const RunModels& models, std::string recipe);

  // Prints the report before step 0; a new run's folder and log.txt begin with it.
  //   output  the user's folder; "": a preview, for which the peak FLOPs are not measured either
  //   folds   the line on shared prefixes; "": nothing is folded
  void open(const StepLoop& loop, const RunMemory& memory, const std::string& output,
            const std::string& folds);
  // Prints from where a run resumes, and starts the progress line. The phase has begun.
  void begin_loop(const StepLoop& loop);
  void begin_body();                    // forgets the metrics of the body before
  void end_body(const StepLoop& loop);  // updates the progress line
  void end_progress();
  // Prints the summary of the run.
  void close(const RunMemory& memory);

  // Notes the metrics that the progress line shows, and prints the loss of an evaluation.
  void log(const Metrics& metrics);
  // Notes the metrics of a body's sampled answers, and prints the notices that are due
  // (rollout_notices.h).
  void log_rollouts(const Metrics& metrics, const BodyRollouts& body);
  void count_tokens(int64_t tokens) { body_tokens_ += tokens; }
  // Writes ledger.json again and prints the new part if sets were opened since the last time.
  void write_ledger();
  // Prints a line and appends it to log.txt.
  void say(const std::string& text);
  // Appends to log.txt. A line that cannot be written is lost: a full disk ends the run when a file
  // that matters is written.
  void log_line(const std::string& text) noexcept;
  // Reports a save at the end of a body. Saves by the clock are printed; those by save.every and at
  // the end of a loop, which the user expects, are only logged.
  void show_save(const StepLoop& loop);
  // Leaves the time since the last body out of the estimate of the time left: a prompt was open.
  void skip_wait();
  // Counts an evaluation or a sampling of the open body apart from its steps in that estimate.
  void add_measuring(double seconds);
  double body_seconds() const;  // the mean of the loop's bodies; 0 before the first
  bool quiet = false;           // no progress of single steps

 private:
  void report_resume(const StepLoop& loop);
  void report_body_copy();
  void report_coverage(const Metrics& metrics);
  void measure_peak(double reached);
  void add_scores(RunSummary& summary) const;
  void show_evaluation(const Metrics& metrics, const std::string& loss);

  Session& session_;
  Run& run_;
  const RunModels& models_;
  std::string recipe_;
  std::optional<RunProgress> progress_;
  Metrics last_train_;
  int64_t body_tokens_ = 0;
  double peak_flops_ = 0;  // of this machine, a second; 0: not measured
  bool measures_peak_ = false;
  bool copy_reported_ = false, has_scores_ = false, coverage_reported_ = false;
  bool unsaved_reported_ = false;
  RolloutNotices rollout_notices_;
  Ledger earlier_ledger_;      // of a run that is resumed
  size_t ledger_sources_ = 0;  // sources of this process in ledger.json
};

}  // namespace xrun
