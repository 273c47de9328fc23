// A dry step runs the recipe's own body with stand-ins for the log-probs of models.

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/config/lua_lexer.h"
#include "core/data/rows/missing_column.h"
#include "core/run/record/metrics_file.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/models/reference.h"
#include "core/train/objective_check.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/preview.h"
#include "tools/commands/engine/check_recipe.h"

namespace xrun {

namespace {

constexpr uint64_t kDrySeed = 1;
constexpr size_t kShown = 6;  // metrics of the dry step

// Returns the micro-batch with the fewest loss rows, of those that have any.
MicroBatch* smallest(const Batch& batch) {
  MicroBatch* found = nullptr;
  for (const auto& micro : batch.micros()) {
    if (micro->row_count() == 0) continue;
    if (found == nullptr || micro->row_count() < found->row_count()) found = micro.get();
  }
  return found;
}

using LeafTensors = std::vector<at::Tensor>;

// Returns d loss / d logprob, summed over all leaves, as the mean over the trained tokens of a
// view.
double side_gradient(const View& side, const LeafTensors& leaves) {
  double sum = 0;
  for (const at::Tensor& leaf : leaves) {
    if (!leaf.grad().defined()) continue;
    const at::Tensor gradient = leaf.grad().to(at::kCPU, at::kDouble).contiguous();
    for (const int64_t row : side.rows().loss_rows) {
      sum += gradient.const_data_ptr<double>()[row];
    }
  }
  return side.row_count() == 0 ? 0 : sum / static_cast<double>(side.row_count());
}

struct LikelihoodSide {
  std::string name;  // "chosen", "rejected", "all"
  double gradient;
};

// Returns the mean gradient of the good and of the bad answers of labelled rows, without a side
// that has no rows.
std::vector<LikelihoodSide> labelled_sides(const View& all, const LeafTensors& leaves) {
  // label [S], by segment; row_segment [R], by loss row.
  const at::Tensor label = all.field("label").to(at::kCPU, at::kDouble).contiguous();
  const at::Tensor segment = all.rows().row_segment.to(at::kCPU).contiguous();
  std::vector<LikelihoodSide> sides;
  for (const auto& [name, wanted] : {std::pair("good", 1.0), std::pair("bad", 0.0)}) {
    double sum = 0;
    int64_t count = 0;
    for (size_t r = 0; r < all.rows().loss_rows.size(); ++r) {
      if (label.const_data_ptr<double>()[segment.const_data_ptr<int64_t>()[r]] != wanted) continue;
      ++count;
      for (const at::Tensor& leaf : leaves) {
        if (!leaf.grad().defined()) continue;
        sum += leaf.grad()[all.rows().loss_rows[r]].item<double>();
      }
    }
    if (count > 0) sides.push_back({name, sum / static_cast<double>(count)});
  }
  return sides;
}

std::vector<LikelihoodSide> sides_of(MicroBatch& micro, const LeafTensors& leaves) {
  if (micro.pair_count() == 0 && micro.all().has_field("label")) {
    return labelled_sides(micro.all(), leaves);
  }
  if (micro.pair_count() == 0) return {{"all", side_gradient(micro.all(), leaves)}};
  return {{"chosen", side_gradient(micro.chosen(), leaves)},
          {"rejected", side_gradient(micro.rejected(), leaves)}};
}

// "decreases when chosen answers become more likely (slope -0.05), increases when ..."
std::string sides_text(const std::vector<LikelihoodSide>& sides) {
  std::string out;
  for (const LikelihoodSide& side : sides) {
    const char* const change = side.gradient < 0   ? "decreases"
                               : side.gradient > 0 ? "increases"
                                                   : "does not change";
    add_item(out, fmt::format("{} when {} become more likely (slope {:+.3g})", change,
                              side.name == "all" ? "the answers" : side.name + " answers",
                              side.gradient));
  }
  return out;
}

// Returns a sentence on a gradient of unexpected sign, or "".
std::string odd_sides(const std::vector<LikelihoodSide>& sides) {
  for (const LikelihoodSide& side : sides) {
    if (side.name == "all") continue;
    if (side.gradient == 0) return fmt::format("it does not depend on {} answers", side.name);
    // A step raises the log-probs whose slope is negative.
    const bool wanted = side.name == "chosen" || side.name == "good";
    if (wanted && side.gradient > 0) return "it makes " + side.name + " answers less likely";
    if (!wanted && side.gradient < 0) return "it makes " + side.name + " answers more likely";
  }
  return "";
}

// Returns a finding on a row whose gradient differs from finite differences; nothing if all agree.
std::optional<Finding> mismatch_finding(const LogprobCheck& check, const MicroBatch& micro,
                                        const std::string& subject, bool detaches) {
  constexpr const char* kOwnMean =
      "; losses less their own mean sum to 0, whatever the log-probs are";
  // Every slope is below what rounding allows to check.
  if (check.rows.empty() && check.unsure > 0) {
    return Finding{Verdict::kNote, subject,
                   "the loss changes so little with its log-probs that rounding hides whether its "
                   "gradient is right",
                   fmt::format("scale the loss up, or look at its weights{}", kOwnMean)};
  }
  if (check.rows.empty()) {
    return Finding{Verdict::kWrong, subject,
                   "the loss does not depend on the log-probs of what is trained",
                   fmt::format("the objective must use policy:logprob, policy:token_logprob or "
                               "policy:logits of its views{}",
                               kOwnMean)};
  }
  for (const LogprobCheck::RowSlope& unit : check.rows) {
    if (check.agrees(unit)) continue;
    const std::string row = micro.row_name(unit.row);
    if (!std::isfinite(unit.analytic) || !std::isfinite(unit.numeric)) {
      return Finding{Verdict::kWrong, subject, "the loss or its gradient is not finite",
                     "look for a logarithm of 0, an exponential of a large number, a division by 0",
                     row};
    }
    return Finding{detaches ? Verdict::kNote : Verdict::kWrong, subject,
                   fmt::format("the gradient differs from finite differences: {:.6g} along one "
                               "direction, expected {:.6g}",
                               unit.analytic, unit.numeric),
                   detaches
                       ? "the recipe detaches a term (detach, no_grad); ignore this if intended"
                       : "a term has no gradient (item(), tolist(), floor), or an operator's "
                         "gradient is wrong",
                   row};
  }
  return std::nullopt;
}

// Checks the gradient of one objective at the log-probs of one micro-batch.
Finding gradient_finding(MicroBatch& micro, const Objective& objective, LogprobStandIn& stand_in,
                         const std::string& subject, bool detaches) {
  const auto leaves_of = [&](MicroBatch& of) { return stand_in.leaves_of(of); };
  const LogprobCheck check = check_logprobs(micro, objective, leaves_of);
  if (auto finding = mismatch_finding(check, micro, subject, detaches)) return *finding;
  // check_logprobs has left its gradients in the leaves.
  const LeafTensors leaves = leaves_of(micro);
  const std::vector<LikelihoodSide> sides = sides_of(micro, leaves);
  int64_t values = 0;
  for (const at::Tensor& leaf : leaves) values += leaf.numel();
  // A row's loss must not depend on the rows beside it.
  if (const std::string row = non_separable_row(micro, objective, leaves_of); !row.empty()) {
    return {Verdict::kNote, subject, "the loss of this row depends on the log-probs of others",
            "packing then changes the result; compute what couples rows in the loop and assign it: "
            "batch.name = tensor",
            row};
  }
  Finding finding{Verdict::kOk, subject,
                  fmt::format("the gradient at {} log-probs equals finite differences; the loss {}",
                              count_text(values), sides_text(sides))};
  if (const std::string odd = odd_sides(sides); !odd.empty()) {
    finding.verdict = Verdict::kNote;
    finding.fix = odd + ": intended, or check the signs";
  }
  return finding;
}

// Returns stand-ins that give a reference the values of its policy, as before the first update.
std::shared_ptr<LogprobStandIn> equal_stand_in(const SessionModels& models) {
  std::vector<std::pair<std::string, std::string>> twins;
  for (const auto& reference : models.references()) {
    twins.emplace_back(models.name_of(*reference), models.name_of(*reference->policy()));
  }
  const auto values = [twins, seeded = LogprobStandIn::seeded(kDrySeed)](MicroBatch& micro,
                                                                         const std::string& model) {
    for (const auto& [reference, policy] : twins) {
      // "reference 1 entropy" is an output of that model.
      if (model != reference && !model.starts_with(reference + " ")) continue;
      return seeded(micro, policy + model.substr(reference.size()));
    }
    return seeded(micro, model);
  };
  return std::make_shared<LogprobStandIn>(values, at::kDouble);
}

// Checks step 0 of a real run, where policy and reference are equal and margins are 0. Throws
// Error, which gets the line of the step, if a loss or a gradient is not finite there.
void check_equal(SessionModels& models, MicroBatch& micro, const Objective& objective) {
  if (models.references().empty()) return;
  const auto equal = equal_stand_in(models);
  const auto before = models.stand_in(equal);
  std::optional<NonFiniteRow> bad;
  try {
    bad = non_finite_row(micro, objective, [&](MicroBatch& of) { return equal->leaves_of(of); });
  } catch (...) {
    models.stand_in(before);
    throw;
  }
  models.stand_in(before);
  if (!bad) return;
  throw Error(
      fmt::format("{}: in step 0, where policy and reference are equal, the {} is not "
                  "finite\nhint: a margin is 0 there: look for a square root or a "
                  "logarithm of 0, or a division by it",
                  bad->row, bad->gradient ? "gradient of the loss" : "loss"));
}

// Reports the metrics that the body logged, from the temporary run's file.
Finding step_finding(const RunLoop& run, int64_t step, bool stepped) {
  const std::filesystem::path file = run.run().dir().path() / "metrics.jsonl";
  RunMetrics metrics;
  if (path_exists(file)) metrics = read_metrics(file);
  std::vector<std::string> values;
  for (const MetricSeries& series : metrics.series) {
    if (series.name.starts_with("perf/") || series.values.empty()) continue;
    values.push_back(fmt::format("{} {:.4g}", series.name, series.values.back()));
  }
  Finding finding{Verdict::kOk, "dry step",
                  fmt::format("the body of step {} ran on stand-ins for log-probs{}", step,
                              values.empty() ? "" : "; it logged " + listed(values, kShown))};
  if (!stepped) {
    finding.verdict = Verdict::kNote;
    finding.text += "; it trained nothing";
    finding.fix = "adamw:step(batch, objective) makes the update";
  } else if (values.empty()) {
    finding.verdict = Verdict::kNote;
    finding.text += "; it logged nothing";
    finding.fix = "run:log(adamw:step(batch, objective)) writes what the step returns";
  }
  return finding;
}

// Returns true if a line of the text may assign to the field: `.gap =`, `.gap, x.other =`, or its
// name as a string.
bool may_assign(std::string_view text, const std::string& field) {
  const std::vector<LuaToken> tokens = lex_lua(text);
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (tokens[i].text != field) continue;
    if (tokens[i].kind == LuaTokenKind::kString) return true;
    if (tokens[i].kind != LuaTokenKind::kName || !is_sign(tokens[i - 1], ".")) continue;
    size_t at = i + 1;
    // The rest of a list of targets.
    const auto in_list = [&] {
      const bool name = tokens[at].kind == LuaTokenKind::kName && tokens[at].text != "local";
      return name || is_sign(tokens[at], ",") || is_sign(tokens[at], ".");
    };
    if (is_sign(tokens[at], ",")) {
      while (in_list()) ++at;
    }
    // Signs are single bytes: `==` is two of them.
    if (is_sign(tokens[at], "=") && !is_sign(tokens[at + 1], "=")) return true;
  }
  return false;
}

// Returns true if something that a dry step leaves out may make the field: rollouts, a module of
// the recipe, a line that another step runs.
bool may_be_made(const RecipeContext& context, const StepLoop& loop, const std::string& field) {
  const bool rollouts =
      std::any_of(loop.sources.begin(), loop.sources.end(), [](const StepSource& source) {
        return source.rollouts != nullptr || source.data->set.kind() == RowKind::kPrompts;
      });
  return rollouts || !context.modules.empty() || may_assign(context.text.text, field);
}

// Reports the error of a dry step. A missing field is a note if the recipe may make it in a real
// run, from rollouts for example, and wrong if nothing makes it.
Finding dry_step_error(Preview& preview, const StepLoop& loop, const ErrorReport& report) {
  const std::string field = report.missing_field;
  if (field.empty()) return error_finding("dry step", report);
  const Ledger& ledger = preview.session().data.ledger;
  if (!may_be_made(preview.recipe().context(), loop, field)) {
    const MissingColumn missing = missing_column(ledger, field);
    const std::string whole = MicroBatch::own_field_beginning(field);
    return {Verdict::kWrong, "dry step",
            fmt::format("no line assigns the field {}, and {}", field,
                        missing.why.empty() ? "no `keep` of the data names it" : missing.why),
            !missing.fix.empty()
                ? missing.fix
                : fmt::format("{}assign it in the loop: batch.{} = tensor",
                              whole.empty() ? "" : fmt::format("did you mean `{}`? else ", whole),
                              field),
            report.position()};
  }
  return {Verdict::kNote, "dry step",
          fmt::format("could not be checked: field {} is made by the recipe at run time", field),
          fmt::format("if nothing makes it, assign it in the loop: batch.{} = tensor", field),
          report.position()};
}

// Searches the text, since the graph does not tell what was detached on purpose.
bool takes_gradients_out(const std::string& recipe) {
  return recipe.find("detach") != std::string::npos || recipe.find("no_grad") != std::string::npos;
}

}  // namespace

std::vector<Finding> dry_step_findings(Preview& preview) {
  std::vector<Finding> findings;
  const LoopPause pause = *preview.pause();
  const bool detaches = takes_gradients_out(preview.recipe().context().text.text);
  // Stays in effect after the step, since code after a loop evaluates too.
  const auto stand_in =
      std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(kDrySeed), at::kDouble);
  preview.session().models.stand_in(stand_in);
  bool stepped = false;
  preview.hooks().on_dry_step = [&](const std::vector<StepTerm>& parts) {
    if (stepped) return;  // a second step of the body is of the same kind
    stepped = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      MicroBatch* micro = smallest(*parts[i].batch);
      if (micro == nullptr) continue;
      const std::string subject =
          parts.size() == 1 ? "gradient" : fmt::format("gradient {}", i + 1);
      findings.push_back(
          gradient_finding(*micro, parts[i].objective, *stand_in, subject, detaches));
      stand_in->clear();
      if (findings.back().verdict == Verdict::kWrong) continue;
      check_equal(preview.session().models, *micro, parts[i].objective);
    }
  };
  preview.hooks().plan.bodies = 1;
  const std::vector<std::string> known = preview.session().notices.lines;
  preview.resume();
  preview.hooks().on_dry_step = {};
  if (preview.error() != nullptr) {
    findings.push_back(dry_step_error(preview, *pause.loop, *preview.error()));
  } else {
    findings.insert(findings.begin(), step_finding(*pause.run, pause.step, stepped));
  }
  // Notices of the body: rollouts of random tokens, say. The loop's opening report has taken the
  // earlier ones out of the list.
  for (const std::string& line : preview.session().notices.lines) {
    if (std::find(known.begin(), known.end(), line) == known.end()) {
      findings.push_back({Verdict::kNote, "dry step", line});
    }
  }
  return findings;
}

}  // namespace xrun
