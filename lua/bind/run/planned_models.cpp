// A policy is planned with all optimizers that train it, its references and its teachers' chunks; a
// frozen model's own weights are planned beside it.

#include "lua/bind/run/planned_models.h"

#include <algorithm>

#include "core/rollout/sampling_memory.h"
#include "core/train/adamw.h"
#include "core/train/batches/held_prefix.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "core/train/models/scorer.h"
#include "lua/bind/run/step_loop.h"
#include "lua/bind/run/step_sizes.h"
#include "lua/bind/session_models.h"

namespace xrun {

namespace {

// The optimizers of one policy.
struct Training {
  int64_t first_optimizer = -1;  // index of the first one that trains it; -1: none
  int64_t optimizers = 0;
  int64_t averages = 0;
  bool scores = false;
};

using Trainings = std::vector<std::pair<std::shared_ptr<Policy>, Training>>;

Training& training_of(Trainings& all, const std::shared_ptr<Policy>& policy) {
  const auto known =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == policy; });
  return known != all.end() ? known->second : all.emplace_back(policy, Training{}).second;
}

// The policies that are saved or that an optimizer trains.
Trainings trainings_of(const RunModels& models) {
  Trainings all;
  for (const auto& policy : models.policies) training_of(all, policy);
  for (size_t i = 0; i < models.optimizers.size(); ++i) {
    const AdamW& adamw = *models.optimizers[i];
    for (const auto& trainable : adamw.trainables()) {
      const auto scorer = std::dynamic_pointer_cast<Scorer>(trainable);
      const auto policy = scorer ? scorer->policy() : std::dynamic_pointer_cast<Policy>(trainable);
      if (policy == nullptr) continue;
      Training& training = training_of(all, policy);
      if (training.first_optimizer < 0) training.first_optimizer = static_cast<int64_t>(i);
      ++training.optimizers;
      training.averages += adamw.average_count();
      training.scores = scorer != nullptr;
    }
  }
  return all;
}

std::optional<AdapterOptions> adapter_of(Policy& policy) {
  if (policy.loaded() && policy.model().adapter()) return policy.model().adapter()->options;
  // A fresh adapter has the options of the recipe before anything is loaded.
  if (policy.options().lora || !policy.trains_adapter()) return policy.options().lora;
  return AdapterOptions{.rank = 1};  // the folder is not read yet: at least this
}

// Adds the sampling of answers to the prompts of a step or to held-out prompts, whichever takes
// more.
void add_sampling(const Policy& policy, const StepSizes& sizes, MemoryShape& shape) {
  const c10::Device device = policy.options().device;
  // Weights in ranges on a GPU are decoded from a copy on the host.
  if (!device.is_cpu() && shape.level == 3) return;
  const auto add = [&](const std::vector<int64_t>& prompts, int64_t samples) {
    if (prompts.empty()) return;
    const SamplingMemory sampling =
        sampling_memory(read_model_config(policy.dir()), policy.options().dtype, device, prompts,
                        samples, sizes.answers.tokens());
    shape.sampling_cache = std::max(shape.sampling_cache, sampling.cache);
    shape.sampling_prompts = std::max(shape.sampling_prompts, sampling.prompt_tokens);
    shape.sampling_rows = std::max(shape.sampling_rows, sampling.rows);
    shape.sampling_packs = shape.sampling_packs || sampling.packs;
  };
  add(sizes.prompts, sizes.answers.samples);
  if (!sizes.prompts.empty()) add(sizes.held_out, /*samples=*/1);
}

void share(const DistOptions& dist, MemoryShape& shape) {
  if (dist.ranks == nullptr || dist.ranks->size() == 1) return;
  shape.ranks = dist.ranks->size();
  shape.level = dist.level;
}

MemoryShape shape_of(Policy& policy, const Training& training, const StepSizes& sizes,
                     c10::Device device) {
  const PolicyOptions& options = policy.options();
  MemoryShape shape;
  shape.dtype = options.dtype;
  shape.gemm = options.gemm;
  shape.head_mb = options.head_mb;
  shape.recompute = options.recompute;
  share(options.dist, shape);
  shape.adapter = adapter_of(policy);
  // Beside an adapter all weights are frozen, whatever `train` says.
  if (!shape.adapter) shape.train = options.train;
  const bool holds = HeldPrefix::obstacle(read_model_config(policy.dir()),
                                          shape.adapter ? &*shape.adapter : nullptr, device)
                         .empty();
  shape.tokens = holds ? sizes.rest_tokens : sizes.tokens;
  shape.prefix_tokens = holds ? sizes.prefix_tokens : 0;
  shape.loss_rows = sizes.loss_rows;
  shape.reference_tokens = sizes.reference_tokens;
  shape.reference_rows = sizes.reference_rows;
  shape.several = sizes.micros > 1;
  shape.items = std::max<int64_t>(holds ? sizes.items : sizes.micros, 1);
  add_sampling(policy, sizes, shape);
  shape.trains = training.first_optimizer >= 0;
  shape.optimizers = training.optimizers;
  shape.averages = training.averages;
  shape.scores = training.scores;
  return shape;
}

// Returns true if xrun.kd reads the teacher's whole distribution, or keeps a matrix of gradients.
bool keeps_gradients(const RunModels& models, const FrozenModel& frozen) {
  if (!models.kd_loss) return false;
  if (frozen.options().cache != FrozenCache::kTopColumns) return true;
  return *models.kd_loss != "" && *models.kd_loss != "topk";
}

void add_teacher(const FrozenModel& frozen, MemoryShape& shape) {
  const int64_t vocab = frozen.config().vocab, width = frozen.config().hidden;
  shape.teacher_vocab = std::max(shape.teacher_vocab, vocab);
  shape.teacher_width += width;
  if (frozen.options().settings.dtype != c10::ScalarType::Float) {
    // Its head is compared in fp32, from a copy.
    shape.teacher_copies += 4 * vocab * width;
  }
}

PlannedModel planned_frozen(const FrozenModel& frozen, const StepSizes& sizes) {
  MemoryShape shape;
  shape.dtype = frozen.options().settings.dtype;
  shape.gemm = frozen.options().settings.gemm;
  share(frozen.options().dist, shape);
  shape.tokens = std::max(sizes.tokens, sizes.reference_tokens);
  shape.trains = false;
  shape.frozen = true;
  return {frozen.config(), shape, 0};
}

}  // namespace

RunModels with_session_models(RunModels models, const SessionModels& session) {
  const auto add = [](const auto& from, auto& to) {
    for (const auto& one : from) {
      if (std::find(to.begin(), to.end(), one) == to.end()) to.push_back(one);
    }
  };
  add(session.policies(), models.policies);
  add(session.optimizers(), models.optimizers);
  models.references = session.references();
  models.frozen = session.frozen_models();
  return models;
}

c10::Device device_of(const std::vector<std::shared_ptr<Policy>>& policies) {
  return policies.empty() ? c10::Device(c10::kCPU) : policies.front()->options().device;
}

std::vector<PlannedModel> planned_models(const RunModels& models, const StepSizes& sizes,
                                         c10::Device device, const CountsTwin& counts,
                                         const CountsFrozen& counts_frozen) {
  std::vector<PlannedModel> planned;
  for (const auto& [policy, training] : trainings_of(models)) {
    const ModelConfig config =
        policy->loaded() ? policy->model().config() : read_model_config(policy->dir());
    MemoryShape shape = shape_of(*policy, training, sizes, device);
    for (const auto& reference : models.references) {
      if (reference->policy() == policy && counts(*reference)) ++shape.references;
    }
    for (const auto& frozen : models.frozen) {
      // A teacher counts here once, beside the policy that learns from it; its own weights are
      // planned below. On a GPU the chunks are compared in the host's memory.
      if (!shape.trains || !device.is_cpu() || !counts_frozen(*frozen)) continue;
      if (keeps_gradients(models, *frozen)) add_teacher(*frozen, shape);
      shape.teacher_support = models.kd_support;
      if (frozen->options().cache == FrozenCache::kTopColumns) {
        const int64_t k = std::min(frozen->options().top_k, frozen->columns());
        shape.teacher_top = std::max(shape.teacher_top, k);
      }
    }
    planned.push_back({config, shape, training.first_optimizer});
  }
  for (const auto& frozen : models.frozen) {
    if (frozen->options().stays_on_cpu && !device.is_cpu()) continue;  // in the host's memory
    if (counts_frozen(*frozen)) planned.push_back(planned_frozen(*frozen, sizes));
  }
  return planned;
}

std::vector<PlannedModel> planned_models(const RunModels& models, const StepLoop& loop,
                                         c10::Device device) {
  return planned_models(
      models, sizes_of(loop), device, [](Reference&) { return true; },
      [](const FrozenModel&) { return true; });
}

}  // namespace xrun
