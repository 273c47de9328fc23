#pragma once
// The memory of a run (planned before each loop, measured after it, recorded in run.json) and the
// disk space that it takes.

#include <optional>

#include "core/run/machine.h"
#include "lua/bind/run/memory_report.h"

namespace xrun {

class Run;
struct RunSummary;

class RunMemory {
 public:
  explicit RunMemory(Run& run) : run_(run) {}

  // Plans a loop. Throws Error as check_memory does.
  void plan(const RunModels& models, const StepLoop& loop);
  // Measures the latest loop and forgets its plan. run.json keeps the fullest loop.
  void end_loop();
  // Writes the memory held so far into run.json, for a run that ends by an error. Never throws.
  void record_after_error() noexcept;
  // The plan of the latest loop; nothing if it trains nothing.
  const std::optional<MemoryReport>& latest() const { return latest_; }
  // Adds the plan and the measured peak of the fullest loop.
  void add_to(RunSummary& summary) const;

 private:
  void measure();

  Run& run_;
  std::optional<MemoryReport> latest_, fullest_;
};

// Returns the bytes of one checkpoint, of an export, and of the answers in rollouts/ after `steps`
// bodies of a loop, each as long as it may be. Answers count only if their number is known; groups
// that dynamic sampling leaves out do not count.
DiskNeeds disk_needs(const RunModels& models, const StepLoop& loop, int64_t steps);

}  // namespace xrun
