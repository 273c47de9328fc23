// The memory that models hold adds up over all models of a run; that of a step only over models
// that are trained together (step_memory.cpp).

#include "core/model/cost/memory_plan.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr double kMaxBytes = double(int64_t{1} << 56);  // of a kind; a sum then fits 64 bits

int64_t whole(double bytes) { return static_cast<int64_t>(std::clamp(bytes, 0.0, kMaxBytes)); }

// Adds a model of the same loss: saved memory adds up, working memory is freed between models.
void join(PeakBytes& all, const PeakBytes& more) {
  all.gradients += more.gradients;
  all.activations += more.activations;
  all.head += more.head;
  all.sampling += more.sampling;
  all.working = std::max(all.working, more.working);
}

}  // namespace

std::vector<MemoryKind> memory_plan(const std::vector<PlannedModel>& models) {
  ResidentBytes held;
  std::map<int64_t, PeakBytes> peaks;  // by optimizer
  for (const PlannedModel& model : models) {
    const StepMemory step = step_memory(model.config, model.shape);
    const ResidentBytes& own = step.held;
    held.weights += own.weights;
    held.copies += own.copies;
    held.optimizer += own.optimizer;
    held.average += own.average;
    held.reference += own.reference;
    held.frozen += own.frozen;
    join(peaks[model.optimizer], step.peak);
  }
  PeakBytes most;
  // The tensors of one optimizer's step are freed before the next, so peaks do not add up.
  for (const auto& [optimizer, peak] : peaks) {
    if (peak.total() > most.total()) most = peak;
  }
  std::vector<MemoryKind> all{
      {"weights", whole(held.weights)},     {"copies", whole(held.copies)},
      {"gradients", whole(most.gradients)}, {"optimizer", whole(held.optimizer)},
      {"average", whole(held.average)},     {"reference", whole(held.reference)},
      {"frozen", whole(held.frozen)},       {"activations", whole(most.activations)},
      {"head", whole(most.head)},           {"sampling", whole(most.sampling)},
      {"working", whole(most.working)}};
  std::erase_if(all, [](const MemoryKind& kind) { return kind.bytes == 0; });
  return all;
}

std::vector<MemoryKind> memory_plan(const ModelConfig& config, const MemoryShape& shape) {
  return memory_plan({PlannedModel{config, shape}});
}

int64_t total_bytes(const std::vector<MemoryKind>& plan) {
  int64_t sum = 0;
  for (const MemoryKind& kind : plan) sum += kind.bytes;
  return sum;
}

std::string describe_kinds(const std::vector<MemoryKind>& plan) {
  std::vector<MemoryKind> sorted = plan;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const MemoryKind& a, const MemoryKind& b) { return a.bytes > b.bytes; });
  std::string text;
  for (const MemoryKind& kind : sorted) {
    add_item(text, fmt::format("{} {}", kind.name, format_bytes(static_cast<double>(kind.bytes))));
  }
  return text;
}

std::string describe_plan(const std::vector<MemoryKind>& plan) {
  return fmt::format("{} of tensors: {}", format_bytes(static_cast<double>(total_bytes(plan))),
                     describe_kinds(plan));
}

}  // namespace xrun
