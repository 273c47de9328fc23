// Plans a loop's memory (memory_plan.h) from its largest micro-batch (step_sizes.h) and the models
// of the run.

#include "lua/bind/run/memory_report.h"

#include <algorithm>

#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/model/cost/memory_remedy.h"
#include "core/model/cost/step_memory.h"
#include "core/model/ops/device_memory.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "lua/bind/run/step_loop.h"
#include "lua/bind/run/step_sizes.h"

namespace xrun {

namespace {

Json to_object(const std::vector<MemoryKind>& kinds, int64_t total) {
  Json object = Json::object();
  object.set("total", total);
  for (const MemoryKind& kind : kinds) object.set(kind.name, kind.bytes);
  return object;
}

constexpr int64_t kCompared = 200'000;  // units of a loop that are looked up in a sidecar

// Returns true if the sidecar holds values for the loop's units from step `first` on. Large loops
// are sampled evenly.
bool has_steps(const Sidecar& sidecar, const StepLoop& loop, const StepSource& source,
               int64_t first) {
  const DataSet& set = source.data->set;
  if (set.window_length() > 0) return false;  // a row may be in several windows
  const bool pairs = set.kind() == RowKind::kPreference;
  const int64_t steps = loop.steps - first;
  const int64_t checked =
      std::min(steps, kCompared / std::max<int64_t>(source.plan.most_units(loop.steps), 1) + 1);
  for (int64_t k = 0; k < checked; ++k) {
    for (const int64_t row : set.step_units(source.plan, first + steps * k / checked)) {
      // A pair has a value for each side, 1 and -1; other rows have side 0.
      const bool has = pairs ? sidecar.has(row, 1) && sidecar.has(row, -1) : sidecar.has(row, 0);
      if (!has) return false;
    }
  }
  return true;
}

// Returns true if the loop will not load the frozen twin: for each set the sidecar holds all values
// or none (the objective does not ask for them), and for at least one set it holds all.
bool needs_no_twin(Reference& reference, const StepLoop& loop) {
  // Step 0 needs no values while the policy and its reference are still equal.
  const int64_t first = reference.shares() ? 1 : 0;
  if (reference.loaded() || loop.steps <= first) return false;
  if (!reference.policy()->loaded()) return false;  // the sidecar's key is not known yet
  int64_t known = 0;
  for (const StepSource& source : loop.sources) {
    const std::string data_key = source.data->set.fingerprint();
    const Sidecar* sidecar = reference.known_sidecar(data_key, loop.max_tokens);
    // The objective has never asked for values of this set.
    if (sidecar == nullptr) continue;
    if (!has_steps(*sidecar, loop, source, first)) return false;
    ++known;
  }
  return known > 0;
}

bool is_loaded(Reference& reference) { return reference.loaded(); }

bool counts_in_plan(const FrozenModel&) { return true; }
// A cached teacher does not load if all rows are stored.
bool counts_in_check(const FrozenModel& frozen) {
  return frozen.loaded() || frozen.options().cache == FrozenCache::kNone;
}

// Adds the copy of the state that a body with several updates begins with (Run::begin_update). A
// run makes none if there is no room, so the check does not count it. It is not known in advance
// whether a single optimizer makes several updates in a body.
void add_copy(const RunModels& models, const std::vector<PlannedModel>& planned,
              std::vector<MemoryKind>& kinds) {
  if (models.optimizers.size() < 2) return;
  double bytes = 0;
  for (const PlannedModel& model : planned) {
    if (!model.shape.trains || model.shape.frozen) continue;
    const ResidentBytes held = step_memory(model.config, model.shape).held;
    // Two moments per optimizer, plus the weights once.
    bytes +=
        held.average + held.optimizer +
        held.optimizer / (2 * static_cast<double>(std::max<int64_t>(model.shape.optimizers, 1)));
  }
  if (bytes > 0) kinds.push_back({"copy", static_cast<int64_t>(bytes)});
}

}  // namespace

void check_before_load(const RunModels& models) {
  const c10::Device device = device_of(models.policies);
  const DeviceMemory memory = device_memory(device);
  check_memory(planned_models(models, {}, device, is_loaded, counts_in_check), /*longest=*/0,
               memory.held, memory.available);
}

MemoryReport MemoryReport::plan(const RunModels& models, const StepLoop& loop) {
  const StepSizes sizes = sizes_of(loop);
  MemoryReport report;
  report.device_ = device_of(models.policies);
  const DeviceMemory memory = device_memory(report.device_);
  check_memory(planned_models(models, sizes, report.device_, is_loaded, counts_in_check),
               sizes.longest, memory.held, memory.available);
  const std::vector<PlannedModel> planned = planned_models(
      models, sizes, report.device_,
      [&](Reference& reference) { return !needs_no_twin(reference, loop); }, counts_in_plan);
  report.planned_ = memory_plan(planned);
  // On a GPU the copy is in the host's memory.
  if (report.device_.is_cpu()) add_copy(models, planned, report.planned_);
  const std::vector<MemoryKind> shared = memory_plan(planned_models(
      models, sizes, report.device_, [](Reference&) { return false; },
      [](const FrozenModel&) { return false; }));
  // Ranks must agree on this part, so models that some ranks may not load are left out.
  report.shared_ = to_object(shared, total_bytes(shared));
  for (const auto& policy : models.policies) {
    // A dry run loads no weights.
    if (policy->loaded()) report.weights_ += policy->model().held_bytes();
  }
  report.program_ = std::max<int64_t>(resident_bytes() - device_memory(c10::kCPU).held, 0);
  // The peak of this loop, not of the loading before it.
  reset_device_peak(report.device_);
  return report;
}

std::string MemoryReport::text() const {
  std::string text = describe_plan(planned_);
  if (device_.is_cpu() && program_ > 0) {
    text +=
        fmt::format("; the program itself takes {}", format_bytes(static_cast<double>(program_)));
  }
  return text;
}

void MemoryReport::measure() {
  measured_ = device_memory(device_).peak;
  resident_ = peak_resident_bytes();
}

Json MemoryReport::to_json() const {
  Json json = Json::object();
  json.set("planned", to_object(planned_, total_bytes(planned_)));
  if (measured_ == 0) return json;
  json.set("measured", to_object({{"weights", weights_},
                                  {"rest", std::max<int64_t>(measured_ - weights_, 0)},
                                  {"rss", resident_}},
                                 measured_));
  return json;
}

}  // namespace xrun
