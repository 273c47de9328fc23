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

FoldSettings RunLoop::fold_of_run(FoldSettings fold) {
  const Json* known = run_->dir().resuming() ? run_->dir().record().find(kFold) : nullptr;
  if (known != nullptr && known->is_object()) {
    // batch.fold itself is compared by the resume, as the whole configuration is.
    if (const Json* ratio = known->find("min_ratio")) fold.min_ratio = ratio->as_double();
  }
  if (fold.mode == FoldMode::kAuto && adapter_dropout(policies_) > 0) {
    fold.mode = FoldMode::kNever;
    fold.off = "the adapter has dropout";
    session_.notices.add(
        "shared prefixes are not folded: with lora.dropout every sequence draws a dropout mask, "
        "but "
        "a folded prefix draws one for all its sequences; --set lora.dropout=0 folds with equal "
        "results, --set batch.fold=true folds anyway");
  }
  for (const auto& policy : policies_) {
    const ModelConfig config = read_model_config(policy->dir());
    if (config.positions != Positions::kRotary || !rope_by_length(config.rope)) continue;
    fold.frequency_class = [rope = config.rope](int64_t n) {
      return rope_frequency_class(rope, n);
    };
  }
  run_->dir().record().set(kFold, to_json(fold));
  return fold;
}

// Counts what the first step of a loop computes, and compares it with its separate sequences.
void RunLoop::check_folding(const StepLoop& loop) {
  fold_text_.clear();
  const bool done = loop.steps <= run_->resume_step() - run_->step();  // a resume skips the loop
  if (!loop.fold.folds() || session_.previews() || done) return;
  int64_t logical = 0, computed = 0;
  double deviation = 0;
  for (size_t i = 0; i < loop.sources.size(); ++i) {
    Model& model = loop.sources[i].data->policy->model();
    const std::shared_ptr<Batch> batch = make_batch(loop, loop.first_step, i);
    logical += batch->token_count();
    computed += computed_tokens(batch->micros(), model);
    deviation = std::max(deviation, deviation_of(*batch, model));
  }
  if (computed == logical) return;
  const double ratio = static_cast<double>(logical) / static_cast<double>(computed);
  fold_text_ = fmt::format("{:.1f}x: {} tokens computed as {} in the first step", ratio,
                           count_text(logical), count_text(computed));
  Json record = to_json(loop.fold);
  record.set("ratio", ratio);
  record.set("deviation", deviation);
  run_->dir().record().set(kFold, std::move(record));
}

}  // namespace xrun
