// Findings about the packs of a loop: their number and size, folds, and rows that look alike but do
// not share their prefixes. One step, whose packs are those that will train, stands for all.

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/progress.h"
#include "core/data/rows/row_encoder.h"
#include "core/model/flops.h"
#include "core/model/weights/hf_config.h"
#include "core/prefix/folded_pack.h"
#include "core/prefix/shared_prefix.h"
#include "core/train/adamw.h"
#include "core/train/batches/held_prefix.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/inspect_loop.h"
#include "lua/prompt/preview.h"
#include "tools/commands/engine/check_recipe.h"

namespace xrun {

namespace {

constexpr size_t kListedCauses = 3;    // of unshared prefixes
constexpr int64_t kCheckedUnits = 64;  // of a step, whose rows are read for shared prefixes

// A row that is too long for a micro-batch is an error that names it.
std::optional<Finding> fit_finding(const StepLoop& loop) {
  for (const StepSource& source : loop.sources) {
    try {
      source.data->set.check_fits(pack_limits(loop.max_tokens, loop.fold));
    } catch (const Error& error) {
      Finding finding{Verdict::kWrong, "batch", error.what()};
      split_location(finding);
      return finding;
    }
  }
  return std::nullopt;
}

// Returns the tokens that a step saves by computing prefixes once for several of its packs.
int64_t held_tokens(const std::vector<PackedBatch>& packs, const FoldSettings& fold,
                    const Policy& policy) {
  const PolicyOptions& options = policy.options();
  const AdapterOptions* const lora = options.lora ? &*options.lora : nullptr;
  // This model computes every pack's prefix again.
  if (!HeldPrefix::obstacle(read_model_config(policy.dir()), lora, options.device).empty())
    return 0;
  std::vector<const PackedBatch*> all;
  for (const PackedBatch& pack : packs) all.push_back(&pack);
  int64_t saved = 0;
  for (const SharedPrefix& prefix : shared_prefixes(all, fold)) {
    if (prefix.has_one_class(fold)) saved += prefix.separate - prefix.together;
  }
  return saved;
}

// Returns the share of a step's model FLOPs, forward and backward, that is left after folding; 1
// without it.
double flops_left(const std::vector<PackedBatch>& packs, const FoldSettings& fold,
                  const Policy& policy) {
  const ModelConfig config = read_model_config(policy.dir());
  double whole = 0, left = 0;
  for (const PackedBatch& pack : packs) {
    const double one =
        pack_flops(config, pack.cu_seqlens).forward() + head_flops(config, pack.rows.size());
    const auto tree = fold_where_it_pays(pack, fold);
    whole += one;
    left += tree ? pack_flops(config, tree->node_begin, tree->parent).forward() +
                       head_flops(config, std::ssize(tree->edge_target))
                 : one;
  }
  return whole > 0 ? left / whole : 1;
}

// "; folds 1.8x: 2,304 tokens computed as 1,280, 57 % of the FLOPs"; "" if nothing is folded.
std::string fold_text(const StepLoop& loop, size_t which, int64_t step, int64_t tokens,
                      int64_t in_packs) {
  const Policy& policy = *loop.sources[which].data->policy;
  const std::vector<PackedBatch> packs = loop.packs(step, which);
  // Folding saves tokens within a pack, a held prefix saves them across packs.
  const int64_t held = held_tokens(packs, loop.fold, policy), computed = in_packs - held;
  if (computed >= tokens) return "";
  std::string text = fmt::format("; folds {:.1f}x: {} tokens computed as {}",
                                 static_cast<double>(tokens) / static_cast<double>(computed),
                                 count_text(tokens), count_text(computed));
  // The backward of a held prefix repeats its forward, which this count does not know.
  if (held == 0) {
    text += fmt::format(", {:.0f} % of the FLOPs", 100 * flops_left(packs, loop.fold, policy));
  }
  return text;
}

// "; 8 answers of up to 128 tokens to each fold at least 3.1x" of a step over prompts; "" if none
// does. An answer that is shorter leaves more to share.
std::string answers_text(const StepLoop& loop, const StepSource& source, int64_t step) {
  if (!source.answers || !loop.fold.folds() || source.answers->samples < 2) return "";
  const int64_t samples = source.answers->samples, longest = source.answers->max_tokens;
  int64_t tokens = 0, computed = 0;
  for (const int64_t unit : source.data->set.step_units(source.plan, step)) {
    const int64_t prompt = std::ssize(source.data->set.prompt_ids(unit));
    tokens += samples * (prompt + longest);
    // A prompt below fold_min is computed for each of its answers.
    computed += (prompt < loop.fold.min_run ? samples : 1) * prompt + samples * longest;
  }
  if (computed == tokens) return "";
  return fmt::format("; {} of up to {} to each fold at least {:.1f}x", counted(samples, "answer"),
                     counted(longest, "token"),
                     static_cast<double>(tokens) / static_cast<double>(computed));
}

Finding packs_finding(const LoopPause& pause, size_t which, const InspectedStep& packs) {
  const StepLoop& loop = *pause.loop;
  const StepSource& source = loop.sources[which];
  const int64_t room = loop.max_tokens * packs.pack_count;
  const std::string changes = changes_text(source.plan, loop.steps);
  Finding finding{
      Verdict::kOk, "steps",
      fmt::format(
          "{} of {} of {}{}; step {}: {} in {}, {:.0f} % full, {} trained",
          counted(loop.steps, "step"), count_text(source.plan.units),
          counted(source.data->set.size(), source.data->set.unit_name()),
          changes.empty() ? "" : " (" + changes + ")", pause.step, counted(packs.tokens, "token"),
          counted(packs.pack_count, "micro-batch", "es"),
          room == 0 ? 0.0 : 100.0 * static_cast<double>(packs.computed) / static_cast<double>(room),
          count_text(packs.targets))};
  finding.text += source.data->set.kind() == RowKind::kPrompts
                      ? answers_text(loop, source, pause.step)
                      : fold_text(loop, which, pause.step, packs.tokens, packs.computed);
  // The first reason stands for all.
  const auto unfolded =
      std::find_if(packs.packs.begin(), packs.packs.end(),
                   [](const InspectedPack& one) { return !one.unfolded.empty(); });
  if (!loop.fold.folds() && unfolded != packs.packs.end()) {
    finding.text +=
        fmt::format("; micro-batch {} is not folded: {}", unfolded->index, unfolded->unfolded);
  }
  const DataSet& set = source.data->set;
  if (set.kind() == RowKind::kFeedback) {
    int64_t good = 0;
    for (int64_t i = 0; i < set.size(); ++i) good += set.label(set.unit(i)) != 0 ? 1 : 0;
    finding.text +=
        fmt::format("; {} good, {} bad", count_text(good), count_text(set.size() - good));
  }
  const auto rows = static_cast<double>(set.size());
  // Occurrences of each row in one step.
  const double repeats = static_cast<double>(source.plan.most_units(loop.steps)) / rows;
  // Without a number of epochs: the passes that the loop's steps make.
  const double epochs =
      source.plan.epochs > 0 ? static_cast<double>(source.plan.epochs) : source.epochs(loop.steps);
  const std::string passes = format_epochs(epochs);
  finding.text += fmt::format("; {} epoch{}", passes, passes == "1" ? "" : "s");
  if (repeats > 1 && epochs > 1) {
    finding.verdict = Verdict::kNote;
    finding.text += fmt::format("; {} step holds every row {:.3g} times",
                                changes.empty() ? "each" : "the largest", repeats);
    finding.fix = source.lower_batch_text(loop.steps);
  }
  return finding;
}

// Returns the reason for which rows that look alike do not share their prefixes; nullopt if they
// share, or if no rows look alike.
std::optional<Finding> prefix_finding(const InspectedStep& step) {
  const std::vector<BreakGroup> groups = break_groups(step.packs);
  if (groups.empty()) return std::nullopt;
  // Short prefixes are not a fault of the data.
  const bool short_only = groups.size() == 1 && groups[0].example->cause == BreakCause::kShort;
  Finding finding{short_only ? Verdict::kOk : Verdict::kNote, "prefixes", ""};
  for (size_t g = 0; g < std::min(groups.size(), kListedCauses); ++g) {
    finding.text += (g == 0 ? "" : "\n") + groups[g].text();
  }
  switch (groups[0].example->cause) {
    case BreakCause::kTemplate:
      finding.fix = "use a template that renders a message the same way whatever follows it";
      break;
    case BreakCause::kMerged: finding.fix = "remove the blanks at the end of the prompts"; break;
    case BreakCause::kText:
      finding.fix = "make these texts equal, or move the differing text after the equal text";
      break;
    case BreakCause::kFrequencies: break;
    case BreakCause::kShort: finding.fix = "a smaller batch.fold_min folds them"; break;
  }
  return finding;
}

}  // namespace

// If rows do not fit, that is the only finding.
std::vector<Finding> loop_findings(const LoopPause& pause) {
  if (const auto finding = fit_finding(*pause.loop)) return {*finding};
  std::vector<Finding> findings;
  const std::vector<InspectedStep> steps = inspect_loop(pause, "", pause.step, kCheckedUnits);
  for (size_t i = 0; i < steps.size(); ++i) {
    findings.push_back(packs_finding(pause, i, steps[i]));
    if (auto prefixes = prefix_finding(steps[i])) findings.push_back(*std::move(prefixes));
  }
  for (const StepSource& source : pause.loop->sources) {
    const std::string labels = source.one_label_text();
    if (!labels.empty()) findings.push_back({Verdict::kNote, "labels", labels});
    const std::string text = source.lone_answer_text(pause.loop->steps);
    if (!text.empty()) findings.push_back({Verdict::kNote, "baseline", text});
  }
  for (const auto& adamw : pause.run->models().optimizers) {
    const std::string text = adamw->short_run_text(pause.loop->steps);
    if (!text.empty()) findings.push_back({Verdict::kNote, "warmup", text});
  }
  return findings;
}

}  // namespace xrun
