// Folding of a run, in run.json: {"fold": {"mode", "min_run", "min_ratio", "ratio", "deviation"}}.
// A resume keeps mode, min_run and min_ratio, since they decide which tokens share a micro-batch.

#include <algorithm>

#include "core/base/strings.h"
#include "core/model/model.h"
#include "core/model/ops/rope.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/hf_config.h"
#include "core/train/computed_pack.h"
#include "core/train/fold_check.h"
#include "core/train/held_prefix.h"
#include "core/train/policy.h"
#include "lua/bind/run_loop.h"

namespace xrun {

namespace {

constexpr const char* kFold = "fold";
constexpr const char* kModes[] = {"never", "auto", "always"};

// The dropout of the adapters that a run trains, as far as it is known before the weights load.
double adapter_dropout(const std::vector<std::shared_ptr<Policy>>& policies) {
  double most = 0;
  for (const auto& policy : policies) {
    if (policy->options().lora) most = std::max(most, policy->options().lora->dropout);
    if (!policy->loaded() || !policy->model().adapter()) continue;
    most = std::max(most, policy->model().adapter()->options.dropout);
  }
  return most;
}

// The largest deviation of the first folded pack of a batch from its separate sequences, and of the
// first pack that begins with a held prefix.
double deviation_of(const Batch& batch, Model& model) {
  double deviation = 0;
  const auto check = [&](MicroBatch& micro, HeldPrefix* prefix) {
    const auto name = [&](int64_t row) { return micro.row_name(row); };
    const ComputedPack& pack = micro.computed(model);
    deviation = std::max(deviation, check_fold(model, micro.pack(), pack, name, prefix));
  };
  for (const auto& micro : batch.micros()) {
    if (micro->computed(model).fold == nullptr) continue;
    check(*micro, nullptr);
    break;
  }
  for (const auto& prefix : held_prefixes(batch.micros())) {
    if (!prefix->serves(model)) continue;
    MicroBatch& micro = *batch.micros()[prefix->begin()];
    micro.begin_with(prefix);
    check(micro, prefix.get());
    micro.close();
    break;
  }
  return deviation;
}

Json to_json(const FoldSettings& fold) {
  return Json(Json::Object{{"mode", kModes[static_cast<size_t>(fold.mode)]},
                           {"min_run", fold.min_run},
                           {"min_ratio", fold.min_ratio}});
}

}  // namespace

FoldSettings fold_of_run(RunLoop& run, FoldSettings fold) {
  RunDir& dir = run.run().dir();
  const Json* known = dir.resuming() ? dir.record().find(kFold) : nullptr;
  if (known != nullptr && known->is_object()) {
    // batch.fold itself is compared by the resume, as the whole configuration is.
    if (const Json* ratio = known->find("min_ratio")) fold.min_ratio = ratio->as_double();
  }
  if (fold.mode == FoldMode::kAuto && adapter_dropout(run.policies()) > 0) {
    fold.mode = FoldMode::kNever;
    fold.off = "the adapter has dropout";
    run.session().notices.add(
        "shared prefixes are not folded: with lora.dropout every sequence draws a dropout mask, "
        "but a folded prefix draws one for all its sequences; --set lora.dropout=0 folds with "
        "equal results, --set batch.fold=true folds anyway");
  }
  for (const auto& policy : run.policies()) {
    const ModelConfig config = read_model_config(policy->dir());
    if (config.positions != Positions::kRotary || !rope_by_length(config.rope)) continue;
    fold.frequency_class = [rope = config.rope](int64_t n) {
      return rope_frequency_class(rope, n);
    };
  }
  dir.record().set(kFold, to_json(fold));
  return fold;
}

std::string check_folding(RunLoop& run, const StepLoop& loop) {
  if (!loop.fold.folds() || run.session().previews() || run.is_replayed(loop)) return "";
  int64_t logical = 0, computed = 0;
  double deviation = 0;
  for (size_t i = 0; i < loop.sources.size(); ++i) {
    Model& model = loop.sources[i].data->policy->model();
    const std::shared_ptr<Batch> batch = loop.make_batch(loop.first_step, run.device(), i);
    logical += batch->token_count();
    computed += computed_tokens(batch->micros(), model);
    deviation = std::max(deviation, deviation_of(*batch, model));
  }
  if (computed == logical) return "";
  const double ratio = static_cast<double>(logical) / static_cast<double>(computed);
  Json record = to_json(loop.fold);
  record.set("ratio", ratio);
  record.set("deviation", deviation);
  run.run().dir().record().set(kFold, std::move(record));
  return fmt::format("{:.1f}x: {} tokens computed as {} in the first step", ratio,
                     count_text(logical), count_text(computed));
}

}  // namespace xrun
