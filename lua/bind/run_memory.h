#pragma once
// The memory of a run: planned before each loop, measured after it, and recorded in run.json.

#include <optional>

#include "lua/bind/memory_report.h"

namespace xrun {

class Run;
struct RunSummary;

class RunMemory {
 public:
  explicit RunMemory(Run& run) : run_(run) {}

  // Plans a loop. Throws Error as check_memory does.
  void plan(const RunModels& models, const StepLoop& loop);
  // Measures the latest loop and forgets its plan. The fullest loop stays in run.json.
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

}  // namespace xrun
