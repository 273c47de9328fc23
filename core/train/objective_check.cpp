// slope = (S(x + h v) - S(x - h v)) / 2h  with S = sum_i w_i loss_i and v in the log-probs of one
// row. Rounding is taken to be at least that of a loss of 1, so the slope is known to within
// noise = sum_i w_i eps max(1, |loss_i|) k / 2h  over the losses that v moves.

#include "core/train/objective_check.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/philox.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/evaluate.h"

namespace xrun {

namespace {

constexpr double kStep = 1e-4, kNarrowStep = 1e-2;  // for float64 losses, and for others
constexpr double kRoundings = 8;                    // in the last digit, while a loss is computed
constexpr double kUnsure = 0.1;  // noise above this share of a slope leaves it undecided
// Errors above these are more than rounding. Losses in float32 have 7 digits; a difference loses
// most of them.
constexpr double kAgrees = 1e-5, kAgreesNarrow = 1e-2;
constexpr double kMove = 0.25;     // added to a log-prob, to see which losses follow
constexpr double kFollows = 1e-5;  // relative; sums of fp32 losses may be taken in another order

// All losses with their graph, and their weights; [n] float64 on the host.
struct WeightedLosses {
  at::Tensor losses, weights;

  at::Tensor total() const { return losses.mul(weights).sum(); }
};

WeightedLosses weighted_losses(const ObjectiveResult& result, const MicroBatch& micro,
                               bool* narrow) {
  std::vector<at::Tensor> losses, weights;
  for (const auto& [unit, loss] : result.losses) {
    // One float32 loss limits the precision of the sum.
    *narrow = *narrow || loss.scalar_type() != at::kDouble;
    losses.push_back(loss.to(at::kDouble).cpu().reshape({-1}));
    weights.push_back(micro.unit_weight(unit).to(at::kCPU, at::kDouble).reshape({-1}));
  }
  return {at::cat(losses), at::cat(weights)};
}

// Returns the data row of each loss if one of the losses is NaN, else nothing.
std::vector<int64_t> rows_of_losses(const ObjectiveResult& result, const MicroBatch& micro) {
  std::vector<int64_t> rows;
  bool some = false;
  for (const auto& [unit, loss] : result.losses) {
    some = some || loss.isnan().any().item().toBool();
  }
  for (const auto& [unit, loss] : result.losses) {
    for (int64_t i = 0; some && i < loss.numel(); ++i) rows.push_back(micro.unit_row(unit, i));
  }
  return rows;
}

// (above - below) / 2h, and the error that rounding may have added.
struct Slope {
  double value = 0, noise = 0;
};

double noise_of(double loss, double weight, double h, bool narrow) {
  const double eps =
      narrow ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  return std::fabs(weight) * kRoundings * eps * std::max(1.0, std::fabs(loss)) / (2 * h);
}

// A loss that is NaN on both sides counts only if own(i), that is, if it belongs to the moved row.
Slope slope_between(const WeightedLosses& above, const WeightedLosses& below,
                    const std::function<bool(int64_t i)>& own, double h, bool narrow) {
  const at::Tensor a = above.losses.contiguous(), b = below.losses.contiguous();
  const at::Tensor w = above.weights.contiguous();
  Slope slope;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double up = a.const_data_ptr<double>()[i], down = b.const_data_ptr<double>()[i];
    const double weight = w.const_data_ptr<double>()[i];
    // Another row's NaN on both sides says nothing about this row; up == down is false for it.
    const bool neither = std::isnan(up) && std::isnan(down);
    if (up == down || (neither && !own(i))) continue;
    slope.value += weight * (up - down) / (2 * h);
    // Summed as if all roundings agreed in sign: an upper bound, never an average.
    slope.noise += noise_of(std::max(std::fabs(up), std::fabs(down)), weight, h, narrow);
  }
  return slope;
}

// The loss rows of one row of the data.
std::vector<int64_t> loss_rows_of(const MicroBatch& micro, int64_t row) {
  std::vector<int64_t> own;
  const PackedBatch& pack = micro.pack();
  for (int64_t r = 0; r < micro.row_count(); ++r) {
    const auto segment = static_cast<size_t>(pack.rows.segment[static_cast<size_t>(r)]);
    if (pack.row_id[segment] == row) own.push_back(r);
  }
  return own;
}

// A direction in these loss rows: uniform in [-1, 1] there, 0 elsewhere. [R] float64.
at::Tensor direction_in(const std::vector<int64_t>& own, int64_t row_count, uint64_t leaf) {
  at::Tensor direction = at::zeros({row_count}, at::kDouble);
  double* const values = direction.mutable_data_ptr<double>();
  for (const int64_t r : own) {
    // A random direction tests all tokens of the row with two evaluations of the objective.
    values[r] = 2 * philox_unit(leaf, kStreamStandIn, 1, static_cast<uint64_t>(r)) - 1;
  }
  return direction;
}

// Sums over only these loss rows: 0 times another row's NaN would be NaN.
double slope_along(const at::Tensor& gradient, const at::Tensor& direction,
                   const std::vector<int64_t>& own) {
  const at::Tensor g = gradient.to(at::kCPU, at::kDouble).contiguous();
  double slope = 0;
  for (const int64_t r : own) {
    slope += g.const_data_ptr<double>()[r] * direction.const_data_ptr<double>()[r];
  }
  return slope;
}

// The unit of each loss row, [R]; empty for groups and chunks.
std::vector<int64_t> units_of_rows(MicroBatch& micro, Unit unit) {
  const auto& segments = micro.pack().rows.segment;
  std::vector<int64_t> units(segments.begin(), segments.end());
  if (unit == Unit::kSequence) return units;
  if (unit == Unit::kToken) {
    for (size_t r = 0; r < units.size(); ++r) units[r] = static_cast<int64_t>(r);
    return units;
  }
  if (unit != Unit::kPair) return {};
  std::vector<int64_t> pair_of(static_cast<size_t>(micro.segment_count()), 0);
  for (const View& side : {micro.chosen(), micro.rejected()}) {
    const auto& own = side.rows().segments;
    for (size_t i = 0; i < own.size(); ++i) {
      pair_of[static_cast<size_t>(own[i])] = static_cast<int64_t>(i);
    }
  }
  // Both sides of a pair move together: a loss per pair may depend on both.
  for (int64_t& value : units) value = pair_of[static_cast<size_t>(value)];
  return units;
}

std::vector<double> losses_of(const ObjectiveResult& result) {
  const at::Tensor flat =
      result.losses.front().second.detach().to(at::kCPU, at::kDouble).flatten().contiguous();
  const double* values = flat.const_data_ptr<double>();
  return {values, values + flat.numel()};
}

// kMove at the rows of every second unit.
at::Tensor moves(const std::vector<int64_t>& unit_of) {
  at::Tensor out = at::zeros({static_cast<int64_t>(unit_of.size())}, at::kDouble);
  double* values = out.data_ptr<double>();
  for (size_t r = 0; r < unit_of.size(); ++r) values[r] = unit_of[r] % 2 == 1 ? kMove : 0;
  return out;
}

// Moves leaves in place and back.
class MovedLeaves {
 public:
  MovedLeaves(std::vector<at::Tensor> leaves, at::Tensor by)
      : leaves_(std::move(leaves)), by_(std::move(by)) {
    add(1);
  }
  ~MovedLeaves() { add(-1); }
  MovedLeaves(const MovedLeaves&) = delete;
  MovedLeaves& operator=(const MovedLeaves&) = delete;

 private:
  void add(double sign) {
    for (const at::Tensor& leaf : leaves_) {
      leaf.detach().add_(by_.to(leaf.device(), leaf.scalar_type()), sign);
    }
  }

  std::vector<at::Tensor> leaves_;
  at::Tensor by_;
};

// Counts a row, or files it with its error beyond `noise`.
void add_row(LogprobCheck::RowSlope row, double noise, LogprobCheck& check) {
  // A row that no loss reads: not an error, but the report counts it.
  if (row.analytic == 0 && row.numeric == 0) {
    ++check.without;
    return;
  }
  const double size = std::max(std::fabs(row.analytic), std::fabs(row.numeric));
  const double apart = std::fabs(row.analytic - row.numeric);
  // Large noise decides nothing, unless the two differ by more than it.
  if (noise > kUnsure * size && apart <= noise) {
    ++check.unsure;
    return;
  }
  row.error = apart <= noise ? 0 : (apart - noise) / size;
  // Kept even with error 0: the report names the worst row.
  check.rows.push_back(row);
}

}  // namespace

bool LogprobCheck::agrees(const RowSlope& row) const {
  return row.error <= (narrow ? kAgreesNarrow : kAgrees);
}

bool larger_error(const LogprobCheck::RowSlope& a, const LogprobCheck::RowSlope& b) {
  if (std::isnan(a.error) || std::isnan(b.error)) {
    return std::isnan(a.error) && !std::isnan(b.error);
  }
  return a.error > b.error;
}

LogprobCheck check_logprobs(MicroBatch& micro, const Objective& objective,
                            const LogprobLeaves& leaves) {
  const RandomScope random;
  LogprobCheck check;
  const auto result_now = [&] {
    at::manual_seed(0);  // an objective may draw random numbers
    ObjectiveResult result = objective(micro);
    check_result(result, micro);
    return result;
  };
  const auto losses_now = [&] { return weighted_losses(result_now(), micro, &check.narrow); };
  std::vector<int64_t> loss_rows;
  double largest_weight = 0;
  {
    const at::AutoGradMode gradients_on(true);
    const ObjectiveResult result = result_now();
    loss_rows = rows_of_losses(result, micro);
    const WeightedLosses losses = weighted_losses(result, micro, &check.narrow);
    if (losses.weights.numel() > 0) largest_weight = losses.weights.abs().max().item().toDouble();
    const at::Tensor total = losses.total();
    // A constant objective has no gradient; its numeric slopes are 0, too.
    if (total.requires_grad()) total.backward();
  }
  const std::vector<at::Tensor> moved = leaves(micro);
  const at::NoGradGuard no_grad;
  const double h = check.narrow ? kNarrowStep : kStep;
  const double least_noise = noise_of(1, largest_weight, h, check.narrow);
  std::vector<int64_t> ids = micro.pack().row_id;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const int64_t id : ids) {
    LogprobCheck::RowSlope row{.row = id};
    const std::vector<int64_t> own = loss_rows_of(micro, id);
    std::vector<at::Tensor> directions;
    for (size_t k = 0; k < moved.size(); ++k) {
      const at::Tensor direction = direction_in(own, micro.row_count(), k);
      if (moved[k].grad().defined()) row.analytic += slope_along(moved[k].grad(), direction, own);
      directions.push_back(direction.to(moved[k].device(), moved[k].dtype()));
    }
    const auto move = [&](double by) {
      for (size_t k = 0; k < moved.size(); ++k) moved[k].detach().add_(directions[k], by);
    };
    const auto owned = [&](int64_t i) {
      return loss_rows.empty() || loss_rows[static_cast<size_t>(i)] == id;
    };
    move(h);
    const WeightedLosses above = losses_now();
    // In place, h up then 2h down: rounding leaves the leaf within an ulp of its start, far below
    // h.
    move(-2 * h);
    const Slope slope = slope_between(above, losses_now(), owned, h, check.narrow);
    move(h);
    row.numeric = slope.value;
    add_row(row, std::max(slope.noise, least_noise), check);
  }
  std::stable_sort(check.rows.begin(), check.rows.end(), larger_error);
  return check;
}

std::string non_separable_row(MicroBatch& micro, const Objective& objective,
                              const LogprobLeaves& leaves) {
  const RandomScope random;
  const at::AutoGradMode gradients_on(true);  // otherwise the objective does not read the leaves
  const auto result_now = [&] {
    at::manual_seed(0);  // other draws would change losses, too
    return objective(micro);
  };
  const ObjectiveResult before = result_now();
  if (before.losses.size() != 1) return "";
  // With losses of two units it is unclear which unit separates, so nothing is claimed.
  const Unit unit = before.losses.front().first;
  const std::vector<int64_t> unit_of = units_of_rows(micro, unit);
  if (unit_of.empty()) return "";
  const std::vector<double> was = losses_of(before);
  const std::vector<double> now = [&] {
    const MovedLeaves moved(leaves(micro), moves(unit_of));
    return losses_of(result_now());
  }();
  // Only odd units were moved: an even one that changed depends on another unit.
  for (size_t u = 0; u < was.size(); u += 2) {
    const double scale = std::max(1.0, std::abs(was[u]));
    if (std::abs(now[u] - was[u]) <= kFollows * scale) continue;
    return micro.row_name(micro.unit_row(unit, static_cast<int64_t>(u)));
  }
  return "";
}

std::optional<NonFiniteRow> non_finite_row(MicroBatch& micro, const Objective& objective,
                                           const LogprobLeaves& leaves) {
  const RandomScope random;
  at::manual_seed(0);
  const at::AutoGradMode gradients_on(true);
  const ObjectiveResult result = objective(micro);
  check_result(result, micro);
  // The first value that is not finite, or -1.
  const auto first_bad = [](const at::Tensor& values) {
    const at::Tensor flat = values.detach().to(at::kCPU, at::kDouble).flatten().contiguous();
    const double* const begin = flat.const_data_ptr<double>();
    const double* const end = begin + flat.numel();
    const double* const bad =
        std::find_if(begin, end, [](double value) { return !std::isfinite(value); });
    return bad == end ? int64_t{-1} : static_cast<int64_t>(bad - begin);
  };
  for (const auto& [unit, loss] : result.losses) {
    if (const int64_t i = first_bad(loss); i >= 0) {
      return NonFiniteRow{micro.row_name(micro.unit_row(unit, i)), false};
    }
  }
  bool narrow = false;
  const at::Tensor total = weighted_losses(result, micro, &narrow).total();
  if (total.requires_grad()) total.backward();
  for (const at::Tensor& leaf : leaves(micro)) {
    const int64_t r = leaf.grad().defined() ? first_bad(leaf.grad()) : -1;
    if (r < 0) continue;
    const auto segment = static_cast<size_t>(micro.pack().rows.segment[static_cast<size_t>(r)]);
    return NonFiniteRow{micro.row_name(micro.pack().row_id[segment]), true};
  }
  return std::nullopt;
}

}  // namespace xrun
