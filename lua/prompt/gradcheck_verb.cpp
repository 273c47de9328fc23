// gradcheck() compares the gradients of an objective with central differences. The log-probs are
// leaves in float64, so that the differences keep enough digits.

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/console/terminal/table.h"
#include "core/train/batches/batch.h"
#include "core/train/models/logprob_stand_in.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "core/train/objective_check.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/objective_verbs.h"
#include "lua/prompt/paused_run.h"
#include "lua/prompt/prompt_verbs.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// Lets a stand-in answer for a session's models during its lifetime; with null the models answer
// themselves.
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

// Returns the values of the run's own models, so that an objective is checked where it is used. A
// reference stores only the sums of answers: its tokens get the policy's log-probs, all shifted by
// the same amount to that sum.
LogprobStandIn::StandInValues true_values(PausedRun& paused) {
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
  LogprobCheck::RowSlope slope;
  std::string name;  // "pairs.jsonl:17"
};

// "1 row has" or "2 rows have".
std::string rows_have(int64_t count) {
  return fmt::format("{} row{}", count, count == 1 ? " has" : "s have");
}

// Returns how many rows agree and the largest error, which the first row has.
std::string agreement_text(const std::vector<CheckedRow>& rows, int64_t wrong,
                           const LogprobCheck& totals) {
  if (rows.empty()) {
    return totals.unsure > 0 ? "no row's slope is large enough to be checked"
                             : "no row's loss depends on its log-probs";
  }
  return fmt::format(
      "{} of {} agree with finite differences; the largest relative error is {:.1e}, at {}",
      std::ssize(rows) - wrong, counted(std::ssize(rows), "row"),
      plain_nan(rows.front().slope.error), rows.front().name);
}

// Returns a sentence on all rows, then a table of at most 10 that disagree.
//   rows    the worst first
//   totals  of all micro-batches
//   width   of the terminal, in columns
std::string gradcheck_text(const std::vector<CheckedRow>& rows, const LogprobCheck& totals,
                           int width) {
  const auto wrong = std::count_if(
      rows.begin(), rows.end(), [&](const CheckedRow& one) { return !totals.agrees(one.slope); });
  std::string text = agreement_text(rows, wrong, totals);
  if (totals.without > 0) text += fmt::format("; {} no gradient", rows_have(totals.without));
  if (totals.unsure > 0) {
    text += fmt::format("\n{} a slope too small to tell from rounding", rows_have(totals.unsure));
  }
  if (totals.narrow) text += "\nthe loss is not float64, so only three digits are meaningful";
  if (wrong == 0) return text;
  TextTable table({"row", "gradient", "difference", "error"},
                  {Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  for (int64_t i = 0; i < std::min<int64_t>(wrong, 10); ++i) {
    const CheckedRow& one = rows[static_cast<size_t>(i)];
    table.add({one.name, fmt::format("{:.6g}", plain_nan(one.slope.analytic)),
               fmt::format("{:.6g}", plain_nan(one.slope.numeric)),
               fmt::format("{:.1e}", plain_nan(one.slope.error))});
  }
  return text + "\n" + table.text(width);
}

// Pushes {rows, unsure, worst, row}: the counts, the largest error and the name of its row.
void push_gradcheck(lua_State* L, const std::vector<CheckedRow>& rows, int64_t unsure) {
  lua_createtable(L, 0, 4);
  push(L, unsure);
  lua_setfield(L, -2, "unsure");
  push(L, rows.empty() ? 0.0 : rows.front().slope.error);
  lua_setfield(L, -2, "worst");
  push(L, rows.empty() ? std::string() : rows.front().name);
  lua_setfield(L, -2, "row");
  push(L, std::ssize(rows));
  lua_setfield(L, -2, "rows");
}

}  // namespace

int gradcheck_verb(lua_State* L) {
  PausedRun& paused = paused_run_of(L);
  paused.begin_loop();
  std::string name;
  lua_settop(L, 1);
  const Objective objective = objective_at(L, paused, 1, "f", &name);
  const std::shared_ptr<Batch> batch = paused.batch();
  const auto stand_in = std::make_shared<LogprobStandIn>(true_values(paused), at::kDouble);
  const StandInScope scope(paused.session(), stand_in);
  const auto leaves = [&](MicroBatch& micro) { return stand_in->leaves_of(micro); };
  std::vector<CheckedRow> rows;
  LogprobCheck totals;  // of every micro-batch; their rows are in `rows`
  for (const auto& micro : batch->micros()) {
    check_interrupt(L);
    const LogprobCheck check = check_logprobs(*micro, objective, leaves);
    // Frees the memory before the next micro-batch is computed.
    micro->close();
    totals.without += check.without;
    totals.unsure += check.unsure;
    totals.narrow = totals.narrow || check.narrow;
    for (const LogprobCheck::RowSlope& slope : check.rows) {
      rows.push_back({slope, micro->row_name(slope.row)});
    }
  }
  // The worst first, so that the rows that disagree come before the others.
  std::stable_sort(rows.begin(), rows.end(), [](const CheckedRow& a, const CheckedRow& b) {
    return larger_error(a.slope, b.slope);
  });
  push_gradcheck(L, rows, totals.unsure);
  const int width = paused.session().console->traits().width;
  show_as(L, gradcheck_text(rows, totals, width));
  return 1;
}

}  // namespace xrun
