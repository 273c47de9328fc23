// The verbs compare and gradcheck: objectives on the current batch; and the recipe's own objective,
// found by the function that its last step got, or by the name that its text passes to adamw:step.

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/lua_source.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/table.h"
#include "core/model/ops/device_memory.h"
#include "core/train/adamw.h"
#include "core/train/batch.h"
#include "core/train/objective_check.h"
#include "core/train/objective_gradient.h"
#include "core/train/policy.h"
#include "core/train/reference.h"
#include "lua/bind/objective.h"
#include "lua/bind/run_loop.h"
#include "lua/prompt/paused_run.h"
#include "lua/prompt/prompt_verbs.h"
#include "lua/state/args.h"

namespace xrun {

// ---- the recipe's own objective

namespace {

using Kind = LuaToken::Kind;

// The second of two names after the bracket or brackets at `at`: of `(batch, dpo)`, `({ { a, f }`.
std::string second_name(const std::vector<LuaToken>& tokens, size_t at) {
  if (is_sign(tokens[at], "(")) ++at;
  const bool parts = is_sign(tokens[at], "{");
  if (parts && (at + 1 >= tokens.size() || !is_sign(tokens[at + 1], "{"))) return "";
  if (parts) at += 2;
  if (at + 3 >= tokens.size() || tokens[at].kind != Kind::kName) return "";
  if (!is_sign(tokens[at + 1], ",") || tokens[at + 2].kind != Kind::kName) return "";
  const LuaToken& next = tokens[at + 3];
  const bool closed = is_sign(next, parts ? "}" : ")") || is_sign(next, ",");
  return closed ? tokens[at + 2].text : "";
}

}  // namespace

// "dpo" of adamw:step(batch, dpo) on or after a line; "" if no call names its objective.
std::string objective_name(std::string_view text, int from_line) {
  const std::vector<LuaToken> tokens = lex_lua(text);
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    // The `step` of any object: the text does not tell which name is an optimizer.
    if (tokens[i].line < from_line || !is_sign(tokens[i], ":")) continue;
    if (tokens[i + 1].kind != Kind::kName || tokens[i + 1].text != "step") continue;
    std::string name = second_name(tokens, i + 2);
    if (!name.empty()) return name;
  }
  return "";
}

// `name` becomes what the recipe calls the function, or "".
void push_objective(lua_State* L, PausedRun& paused, std::string* name) {
  *name = "";
  const FrameNames frame = paused.names();
  const std::shared_ptr<LuaRef> trained = paused.objective(name);
  if (trained == nullptr) {
    const std::string& text = paused.recipe().context().text.text;
    *name = objective_name(text, frame.line());
    // A step in a function is written before the loop that calls it.
    if (name->empty()) *name = objective_name(text);
  }
  if (!name->empty() && frame.push(L, *name)) {
    if (lua_isfunction(L, -1)) return;
    lua_pop(L, 1);
  }
  name->clear();
  XRUN_CHECK(trained != nullptr,
             "which objective? no line of the recipe has adamw:step(batch, NAME), and no step of "
             "this loop has run here; pass the objective as an argument");
  trained->push(L);
}

// ---- compare and gradcheck

namespace {

// The __tostring of a result.
int push_shown(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  return 1;
}

}  // namespace

void show_as(lua_State* L, std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  lua_newtable(L);
  push(L, text);
  // The text is an upvalue, so that the table has no field for it.
  lua_pushcclosure(L, push_shown, 1);
  lua_setfield(L, -2, "__tostring");
  lua_setmetatable(L, -2);
}

namespace {

// The objective at index i, or the recipe's own; `name` is what it is called in tables.
Objective objective_at(lua_State* L, PausedRun& paused, int i, const char* which,
                       std::string* name) {
  if (!lua_isnoneornil(L, i)) {
    *name = which;
    return lua_objective(L, i, which);
  }
  push_objective(L, paused, name);
  if (name->empty()) *name = "the recipe's";
  return lua_objective(L, lua_gettop(L), which);
}

// Of the last step, else the first of the run.
AdamW& optimizer_of(PausedRun& paused) {
  if (const auto& last = paused.hooks().last_step().optimizer) return *last;
  const std::vector<std::shared_ptr<AdamW>> all = paused.pause().run->models().optimizers;
  XRUN_CHECK(!all.empty(), "the run was given no optimizer (xrun.run), and no step has run here");
  return *all.front();
}

// Two copies of the gradients are held on the host.
void check_room(AdamW& adamw) {
  int64_t bytes = 0;
  for (const auto& trainable : adamw.trainables()) {
    for (const Parameter& parameter : trainable->parameters())
      bytes += 2 * parameter.master.numel() * 4;
  }
  const int64_t available = available_bytes();
  XRUN_CHECK(available == 0 || bytes < available,
             "two gradients to compare take {:.0f} MB, and {:.0f} MB are free",
             static_cast<double>(bytes) / 1e6, static_cast<double>(available) / 1e6);
}

std::string cell(std::optional<double> value) { return value ? format_metric(*value) : "-"; }

// "-" where one of them lacks a metric.
std::string comparison_text(const ObjectiveGradient& first, const ObjectiveGradient& second,
                            const std::vector<GradientAngle>& angles, const std::string names[2],
                            int width) {
  const std::vector<Align> align = {Align::kLeft, Align::kRight, Align::kRight};
  TextTable values({"", names[0], names[1]}, align);
  for (const auto& [name, value] : first.metrics) {
    values.add({name, cell(value), cell(find_metric(second.metrics, name))});
  }
  for (const auto& [name, value] : second.metrics) {
    if (!find_metric(first.metrics, name)) values.add({name, "-", cell(value)});
  }
  TextTable groups({"gradient", "cosine", "norm ratio"}, align);
  for (const GradientAngle& angle : angles) {
    groups.add({angle.group, fmt::format("{:.4f}", angle.cosine), format_metric(angle.norm_ratio)});
  }
  return values.text(width) + "\n" + groups.text(width);
}

// compare(f, g?): g is the recipe's own if it is left out, which then comes first.
int compare_verb(lua_State* L) {
  PausedRun& paused = paused_run_of(L);
  paused.begin_loop();
  std::string names[2];
  const bool alone = lua_isnoneornil(L, 2);
  const int top = lua_gettop(L);
  // If alone, index 3 is empty, which means the recipe's own objective.
  lua_settop(L, std::max(top, 2));
  const Objective first = objective_at(L, paused, alone ? 3 : 1, "f", &names[0]);
  const Objective second = objective_at(L, paused, alone ? 1 : 2, alone ? "f" : "g", &names[1]);
  AdamW& adamw = optimizer_of(paused);
  check_room(adamw);
  const std::shared_ptr<Batch> batch = paused.batch();
  StepOptions options;
  options.poll = [L] { check_interrupt(L); };
  const auto gradient = [&](const Objective& objective) {
    return objective_gradient({{batch.get(), objective}}, adamw, options);
  };
  const ObjectiveGradient a = gradient(first), b = gradient(second);
  const std::vector<GradientAngle> angles = compare_gradients(a, b);
  lua_createtable(L, 0, 4);
  push(L, angles.front().cosine);
  lua_setfield(L, -2, "cosine");
  push(L, angles.front().norm_ratio);
  lua_setfield(L, -2, "norm_ratio");
  push(L, std::make_shared<MetricTable>(MetricTable{a.metrics}));
  lua_setfield(L, -2, "first");
  push(L, std::make_shared<MetricTable>(MetricTable{b.metrics}));
  lua_setfield(L, -2, "second");
  const int width = paused.session().console->traits().width;
  show_as(L, comparison_text(a, b, angles, names, width));
  return 1;
}

// Replaces the stand-in of a session's models during its lifetime; null: the models themselves.
class StandInScope {
 public:
  StandInScope(Session& session, std::shared_ptr<LogprobStandIn> stand_in)
      : models_(session.models), before_(models_.stand_in(std::move(stand_in))) {}
  ~StandInScope() { models_.stand_in(before_); }
  StandInScope(const StandInScope&) = delete;
  StandInScope& operator=(const StandInScope&) = delete;

 private:
  SessionModels& models_;
  std::shared_ptr<LogprobStandIn> before_;
};

// The values of the run's own models, so that an objective is checked where it works. The column of
// a reference holds sums alone: its token values are the policy's, moved by an equal share.
LogprobStandIn::Source true_values(PausedRun& paused) {
  return [&paused](MicroBatch& micro, const std::string& model) -> at::Tensor {
    Session& session = paused.session();
    const StandInScope scope(session, nullptr);
    const View all = micro.all();
    for (const auto& policy : paused.pause().run->policies()) {
      if (session.models.name_of(*policy) == model) return policy->token_logprob(all);
    }
    for (const auto& reference : session.models.references()) {
      if (session.models.name_of(*reference) != model) continue;
      const at::Tensor own = reference->policy()->token_logprob(all).to(at::kDouble);
      const at::Tensor gap = reference->logprob(all).to(at::kDouble).sub(all.sum(own));
      const at::Tensor length = all.length().to(at::kDouble).clamp_min(1);
      return own.add(all.spread(gap.div(length)));
    }
    // A model that the run does not list gets seeded values.
    return LogprobStandIn::seeded(0)(micro, model);
  };
}

struct CheckedRow {
  LogprobCheck::RowSlope unit;
  std::string name;  // "pairs.jsonl:17"
};

// A sentence on all rows, then those that disagree, the worst first.
std::string gradcheck_text(const std::vector<CheckedRow>& units, const LogprobCheck& all,
                           int width) {
  const auto wrong = std::count_if(units.begin(), units.end(),
                                   [&](const CheckedRow& one) { return !all.agrees(one.unit); });
  std::string text =
      units.empty() ? all.unsure > 0 ? "no row's slope is large enough to be checked"
                                     : "no row's loss depends on its log-probs"
                    : fmt::format(
                          "{} of {} agree with finite differences; the largest relative error is "
                          "{:.1e}, at {}",
                          std::ssize(units) - wrong, counted(std::ssize(units), "row"),
                          plain_nan(units.front().unit.error), units.front().name);
  if (all.without > 0) {
    text +=
        fmt::format("; {} row{} no gradient", all.without, all.without == 1 ? " has" : "s have");
  }
  if (all.unsure > 0) {
    text += fmt::format("\n{} row{} a slope too small to tell from rounding", all.unsure,
                        all.unsure == 1 ? " has" : "s have");
  }
  if (all.narrow) text += "\nthe loss is not float64, so only three digits are meaningful";
  if (wrong == 0) return text;
  TextTable table({"row", "gradient", "difference", "error"},
                  {Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  for (int64_t i = 0; i < std::min<int64_t>(wrong, 10); ++i) {
    const CheckedRow& one = units[static_cast<size_t>(i)];
    table.add({one.name, fmt::format("{:.6g}", plain_nan(one.unit.analytic)),
               fmt::format("{:.6g}", plain_nan(one.unit.numeric)),
               fmt::format("{:.1e}", plain_nan(one.unit.error))});
  }
  return text + "\n" + table.text(width);
}

int gradcheck_verb(lua_State* L) {
  PausedRun& paused = paused_run_of(L);
  paused.begin_loop();
  std::string name;
  lua_settop(L, std::max(lua_gettop(L), 1));
  const Objective objective = objective_at(L, paused, 1, "f", &name);
  const std::shared_ptr<Batch> batch = paused.batch();
  // float64, so that central differences keep enough digits.
  const auto stand_in = std::make_shared<LogprobStandIn>(true_values(paused), at::kDouble);
  const StandInScope scope(paused.session(), stand_in);
  const auto leaves = [&](MicroBatch& micro) { return stand_in->leaves_of(micro); };
  std::vector<CheckedRow> units;
  LogprobCheck all;  // of every micro-batch, but for its units
  for (const auto& micro : batch->micros()) {
    check_interrupt(L);
    const LogprobCheck check = check_logprobs(*micro, objective, leaves);
    // Freed before the next one is computed.
    micro->close();
    all.without += check.without;
    all.unsure += check.unsure;
    all.narrow = all.narrow || check.narrow;
    for (const LogprobCheck::RowSlope& unit : check.rows) {
      units.push_back({unit, micro->row_name(unit.row)});
    }
  }
  // The worst first: the text lists as many as disagree.
  std::stable_sort(units.begin(), units.end(), [](const CheckedRow& a, const CheckedRow& b) {
    return larger_error(a.unit, b.unit);
  });
  lua_createtable(L, 0, 4);
  push(L, all.unsure);
  lua_setfield(L, -2, "unsure");
  push(L, units.empty() ? 0.0 : units.front().unit.error);
  lua_setfield(L, -2, "worst");
  push(L, units.empty() ? std::string() : units.front().name);
  lua_setfield(L, -2, "row");
  push(L, std::ssize(units));
  lua_setfield(L, -2, "rows");
  const int width = paused.session().console->traits().width;
  show_as(L, gradcheck_text(units, all, width));
  return 1;
}

const PromptVerb kObjectiveVerbs[] = {
    {"compare",
     {{"f", "function"}, {"g?", "function"}},
     {"table"},
     "Losses, metrics and gradients of two objectives on the current batch, side by side, "
     "without an update: cosine and ratio of norms, over all weights and by kind of weight. One "
     "objective alone is compared with the recipe's own.",
     compare_verb},
    {"gradcheck",
     {{"f?", "function"}},
     {"table"},
     "Compares the gradient of an objective (by default the recipe's own) with central "
     "differences, in float64, of the log-probs that it receives, row by row of the current "
     "batch; names the worst row.",
     gradcheck_verb},
};

}  // namespace

std::span<const PromptVerb> objective_verbs() { return kObjectiveVerbs; }

}  // namespace xrun
