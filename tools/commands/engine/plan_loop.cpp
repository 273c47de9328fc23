// A pack's FLOPs are those of its folded tree, by the rule of the step itself.

#include "tools/commands/engine/plan_loop.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/model/flops.h"
#include "core/model/weights/trained_weights.h"
#include "core/model/weights/weight_layout.h"
#include "core/prefix/folded_pack.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/memory_report.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/preview.h"

namespace xrun {

namespace {

constexpr int64_t kPlannedSteps = 4;  // spread over the loop; their mean is planned

// FLOPs of a pack in a model.
struct PackWork {
  PackFlops blocks;
  double head = 0;
};

PackWork work_of(const ModelConfig& config, const PackedBatch& pack, const FoldSettings& fold,
                 const AdapterOptions* adapter) {
  const auto tree = fold_where_it_pays(pack, fold);
  if (!tree) {
    return {pack_flops(config, pack.cu_seqlens, {}, adapter), head_flops(config, pack.rows.size())};
  }
  return {pack_flops(config, tree->node_begin, tree->parent, adapter),
          head_flops(config, std::ssize(tree->edge_target))};
}

// Returns the counts of trained and frozen weights, without micro-batches.
StepWork work_without_packs(const PlannedModel& policy, const RunModels& models) {
  const std::optional<AdapterOptions>& adapter = policy.shape.adapter;
  StepWork out{.micros = {}, .weights = weight_elements(policy.config), .trained = 0};
  out.trained = adapter ? adapter_elements(*adapter, policy.config)
                        : trained_elements(policy.config, policy.shape.train);
  // A reference beside an adapter shares the policy's weights.
  if (!adapter) out.frozen = static_cast<double>(models.references.size()) * out.weights;
  for (const auto& frozen : models.frozen) out.frozen += weight_elements(frozen->config());
  out.element = static_cast<double>(elementSize(policy.shape.dtype));
  out.recompute = policy.shape.recompute;
  return out;
}

// Returns the FLOPs of a pack for all models.
MicroWork micro_work(const PlannedModel& policy, const RunModels& models, const PackedBatch& pack,
                     const FoldSettings& fold, const StepWork& step) {
  const AdapterOptions* const adapter = policy.shape.adapter ? &*policy.shape.adapter : nullptr;
  // The part of the weights with gradients: a frozen one costs no product for its gradient.
  const double share = adapter == nullptr ? step.trained / step.weights : 0;
  const PackWork one = work_of(policy.config, pack, fold, adapter);
  MicroWork micro{.blocks = {one.blocks.forward(), one.blocks.backward(share)},
                  .head = {one.head, (1 + share) * one.head}};
  // A reference has the policy's shapes and reads the same rows.
  const auto references = static_cast<double>(models.references.size());
  micro.blocks.frozen = references * micro.blocks.forward;
  micro.head.frozen = references * micro.head.forward;
  for (const auto& frozen : models.frozen) {
    const PackWork other = work_of(frozen->config(), pack, fold, nullptr);
    micro.blocks.frozen += other.blocks.forward();
    micro.head.frozen += other.head;
  }
  return micro;
}

}  // namespace

PlannedLoop planned_loop(const LoopPause& pause, c10::DeviceType device) {
  const StepLoop& loop = *pause.loop;
  const RunModels models = pause.run->models();
  PlannedLoop out;
  out.models = planned_models(models, loop, device);
  const auto policy = std::find_if(out.models.begin(), out.models.end(),
                                   [](const PlannedModel& one) { return one.shape.trains; });
  XRUN_CHECK(policy != out.models.end(),
             "no optimizer was given to xrun.run, so there is nothing to plan: xrun.run(cfg, "
             "{{ policy = policy, adamw = adamw }})");
  out.policy = *policy;
  out.fold = loop.fold;
  const StepWork none = work_without_packs(out.policy, models);
  const int64_t steps = std::min(kPlannedSteps, loop.steps);
  for (int64_t k = 0; k < steps; ++k) {
    // Spread over the loop, since a mixture or schedule changes the packs.
    const int64_t step = loop.first_step + loop.steps * k / steps;
    StepWork& work = out.steps.emplace_back(none);
    for (size_t s = 0; s < loop.sources.size(); ++s) {
      XRUN_CHECK(!loop.sources[s].answers,
                 "this loop samples its answers, whose time is not predicted; xrun check has the "
                 "memory of a step");
      for (const PackedBatch& pack : loop.packs(step, s)) {
        work.micros.push_back(micro_work(out.policy, models, pack, loop.fold, none));
        out.tokens += static_cast<double>(pack.token_count()) / static_cast<double>(steps);
        if (pack.token_count() > out.pack.token_count()) out.pack = pack;
      }
    }
  }
  return out;
}

}  // namespace xrun
