// Folding of a run, in run.json: {"fold": {"mode", "min_run", "min_ratio", "ratio", "deviation"}}.
// A resume keeps min_ratio; mode and min_run are settings, which it compares. All three decide
// which tokens share a micro-batch. ratio and deviation are of the first step that this process
// trained. Rows are measured before the loop; rollouts, which are sampled in its bodies, at the
// first update.

#include <algorithm>

#include "core/base/strings.h"
#include "core/model/model.h"
#include "core/model/ops/rope.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/hf_config.h"
#include "core/rollout/rollouts.h"
#include "core/train/adamw.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/batches/fold_check.h"
#include "core/train/batches/held_prefix.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/run_loop.h"

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

// Returns true if a policy runs on a GPU and has layers with a window. The library calls of a tree
// know no windows, so such a layer would compute the products of all pairs of tokens.
bool windows_on_gpu(const std::vector<std::shared_ptr<Policy>>& policies) {
  return std::any_of(policies.begin(), policies.end(), [](const auto& policy) {
    const std::vector<int64_t> windows = read_model_config(policy->dir()).windows;
    return !policy->options().device.is_cpu() &&
           std::any_of(windows.begin(), windows.end(), [](int64_t window) { return window > 0; });
  });
}

// The tokens that folding saves in one step, and its effect on the hidden states.
struct StepFold {
  int64_t logical = 0, computed = 0;  // tokens
  // The largest deviation of the first folded pack from its separate sequences, and of the first
  // pack that begins with a held prefix.
  double deviation = 0;
  std::string notice = {};  // a prefix that is not held; "": none

  double ratio() const { return static_cast<double>(logical) / static_cast<double>(computed); }
  // "1.8x: 2,304 tokens computed as 1,280"
  std::string text() const {
    return fmt::format("{:.1f}x: {} tokens computed as {}", ratio(), count_text(logical),
                       count_text(computed));
  }
};

// Returns a notice of micro-batches that would share a held prefix but cannot.
std::string unheld_text(const HeldPrefix& prefix, const std::string& obstacle) {
  return fmt::format(
      "{} begin with the same {}, which are computed in each of them: {}",
      counted(static_cast<int64_t>(prefix.end() - prefix.begin()), "micro-batch", "es"),
      counted(prefix.prefix().size(), "token"), obstacle);
}

// Throws Error for a deviation above the bound of check_fold.
void add_batch(const Batch& batch, Model& model, StepFold& step) {
  const auto check = [&](MicroBatch& micro, HeldPrefix* prefix) {
    const auto name = [&](int64_t row) { return micro.row_name(row); };
    const ComputedPack& pack = micro.computed(model);
    step.deviation = std::max(step.deviation, check_fold(model, micro.pack(), pack, name, prefix));
  };
  step.logical += batch.token_count();
  step.computed += computed_tokens(batch.micros(), model);
  for (const auto& micro : batch.micros()) {
    if (micro->computed(model).fold == nullptr) continue;
    check(*micro, nullptr);
    break;
  }
  const auto prefixes = held_prefixes(batch.micros());
  for (const auto& prefix : prefixes) {
    if (!prefix->serves(model)) continue;
    MicroBatch& micro = *batch.micros()[prefix->begin()];
    micro.begin_with(prefix);
    check(micro, prefix.get());
    micro.close();
    break;
  }
  for (const auto& prefix : prefixes) {
    const std::string obstacle = model.trainable() ? prefix->obstacle(model) : "";
    if (!obstacle.empty() && step.notice.empty()) step.notice = unheld_text(*prefix, obstacle);
  }
}

Json fold_settings_json(const FoldSettings& fold) {
  return Json(Json::Object{{"mode", kModes[static_cast<size_t>(fold.mode)]},
                           {"min_run", fold.min_run},
                           {"min_ratio", fold.min_ratio}});
}

void record(RunDir& dir, const FoldSettings& fold, const StepFold& step) {
  Json record = fold_settings_json(fold);
  record.set("ratio", step.ratio());
  record.set("deviation", step.deviation);
  dir.record().set(kFold, std::move(record));
  // Written at once: a resume whose steps are all done does not measure it again.
  dir.write_record();
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
  } else if (fold.mode == FoldMode::kAlways && adapter_dropout(run.policies()) > 0) {
    run.session().notices.add(
        "batch.fold = true folds shared prefixes although the adapter has dropout: a folded prefix "
        "draws one dropout mask for all its sequences, so the gradients are not those of separate "
        "sequences");
  }
  if (fold.mode == FoldMode::kAuto && windows_on_gpu(run.policies())) {
    fold.mode = FoldMode::kNever;
    fold.off = "the model has windows, on a GPU";
    run.session().notices.add(
        "shared prefixes are not folded: on a GPU, attention over a tree with a window keeps the "
        "scores of all pairs of tokens; --set batch.fold=true folds anyway, with equal results");
  }
  std::vector<RopeConfig> ropes;
  for (const auto& policy : run.policies()) {
    const ModelConfig config = read_model_config(policy->dir());
    if (config.positions != Positions::kRotary || !rope_by_length(config.rope)) continue;
    ropes.push_back(config.rope);
  }
  if (!ropes.empty()) {
    // Sequences share only where every policy gives them the same frequencies.
    fold.frequency_class = [ropes](int64_t n) {
      uint64_t all = 0;
      for (const RopeConfig& rope : ropes) {
        all = all * 1'000'003 + static_cast<uint64_t>(rope_frequency_class(rope, n));
      }
      return static_cast<int64_t>(all);
    };
  }
  Json record = fold_settings_json(fold);
  for (const char* name : {"ratio", "deviation"}) {
    const Json* value = known != nullptr && known->is_object() ? known->find(name) : nullptr;
    if (value != nullptr && fold.folds()) record.set(name, *value);
  }
  dir.record().set(kFold, std::move(record));
  return fold;
}

std::string check_folding(RunLoop& run, const StepLoop& loop) {
  if (!loop.fold.folds() || run.is_replayed(loop)) return "";
  StepFold step;
  for (size_t i = 0; i < loop.sources.size(); ++i) {
    // Prompts are not trained; their answers are checked once they are sampled.
    if (loop.sources[i].data->set.kind() == RowKind::kPrompts) continue;
    add_batch(*loop.make_batch(loop.first_step, run.device(), i),
              loop.sources[i].data->policy->model(), step);
  }
  run.session().notices.add(step.notice);
  if (step.computed == step.logical) return "";
  record(run.run().dir(), loop.fold, step);
  return step.text() + " in the first step";
}

namespace {

// Returns the folding of those of an update's terms that `chosen` accepts.
template <typename Chosen>
StepFold update_fold(const std::vector<StepTerm>& terms, Model& model, const Chosen& chosen) {
  StepFold step;
  for (const StepTerm& term : terms) {
    if (!chosen(*term.batch) || term.batch->size() == 0) continue;
    if (term.batch->info().fold.folds()) add_batch(*term.batch, model, step);
  }
  return step;
}

void report_first_rollouts(RunLoop& run, const StepLoop& loop, const StepFold& step) {
  if (!step.notice.empty()) run.report().say(step.notice);
  if (step.computed == step.logical) return;
  RunDir& dir = run.run().dir();
  // A resume keeps the values that the run began with.
  if (dir.record().at(kFold).find("ratio") == nullptr) record(dir, loop.fold, step);
  run.report().say(
      fmt::format("step {}: folds {} in the first update", run.run().step(), step.text()));
}

}  // namespace

void check_update_folding(RunLoop& run, const std::vector<StepTerm>& terms, const AdamW& adamw) {
  const StepLoop* const loop = run.open_loop();
  if (loop == nullptr || !loop->checks_folding) return;
  Model* model = nullptr;
  for (const auto& trainable : adamw.trainables()) {
    if (auto* const policy = dynamic_cast<Policy*>(trainable.get())) model = &policy->model();
  }
  if (model == nullptr) return;
  const auto is_sampled = [](const Batch& batch) {
    return dynamic_cast<const Rollouts*>(&batch) != nullptr && batch.size() > 0;
  };
  if (!loop->rollouts_checked && std::any_of(terms.begin(), terms.end(), [&](const auto& term) {
        return is_sampled(*term.batch);
      })) {
    loop->rollouts_checked = true;
    report_first_rollouts(run, *loop, update_fold(terms, *model, is_sampled));
  }
  // The first step is compared above, or before the loop.
  const int64_t step = loop->batch_step;
  if (loop->fold_check == 0 || step % loop->fold_check != 0 || step <= loop->fold_checked) return;
  loop->fold_checked = step;
  const StepFold now = update_fold(terms, *model, [](const Batch&) { return true; });
  if (now.computed == now.logical) return;
  const Metrics deviation = {{"perf/fold_deviation", now.deviation}};
  run.run().log(deviation);
}

}  // namespace xrun
