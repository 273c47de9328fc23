// cosine = sum a b / (|a| |b|) over the weights of a group, sums in double.
// slope  = (S(x + h v) - S(x - h v)) / 2h  with S = sum_i w_i loss_i and v in the log-probs of one
// row. A loss is rounded as a number of at least 1 is, so the slope is known to within
// noise = sum_i w_i eps max(1, |loss_i|) k / 2h  over the losses that v moves.

#include "core/train/objective_gradient.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/base/philox.h"
#include "core/train/adamw.h"
#include "core/train/batch.h"
#include "core/train/random_scope.h"

namespace xrun {

namespace {

// Of float64 losses, and of those that lost digits on the way.
constexpr double kStep = 1e-4, kNarrowStep = 1e-2;
constexpr double kRoundings = 8;  // of the last digit, in what an objective computes
constexpr double kUnsure = 0.1;   // noise above this share of a slope leaves it open
// Larger errors than rounding makes. Losses of float32 have 7 digits, which a difference loses.
constexpr double kAgrees = 1e-5, kAgreesNarrow = 1e-2;

// "model.layers.*.mlp.up_proj.weight"
std::string group_of(const std::string& name) {
  std::string group;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, end - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    group += (at == 0 ? "" : ".") + (number ? std::string("*") : part);
    at = end + 1;
  }
  return group;
}

struct Sums {
  double dot = 0, first = 0, second = 0;  // squares

  void add(const Sums& other) {
    dot += other.dot;
    first += other.first;
    second += other.second;
  }
  GradientAngle angle(const std::string& group) const {
    const double a = std::sqrt(first), b = std::sqrt(second);
    const double none = b > 0 ? std::numeric_limits<double>::infinity() : 1;
    return {group, a > 0 && b > 0 ? dot / (a * b) : 0, a > 0 ? b / a : none};
  }
};

double dot_of(const at::Tensor& a, const at::Tensor& b) {
  // In pieces: a double copy of an embedding is twice its size.
  constexpr int64_t kPiece = int64_t{1} << 20;
  const at::Tensor x = a.reshape({-1}), y = b.reshape({-1});
  double sum = 0;
  for (int64_t begin = 0; begin < x.numel(); begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, x.numel());
    const auto piece = [&](const at::Tensor& of) {
      return of.slice(0, begin, end).to(at::kDouble);
    };
    sum += piece(x).mul(piece(y)).sum().item().toDouble();
  }
  return sum;
}

const at::Tensor* find(const ObjectiveGradient& gradient, const std::string& name) {
  const auto found = std::find(gradient.names.begin(), gradient.names.end(), name);
  if (found == gradient.names.end()) return nullptr;
  return &gradient.gradients[static_cast<size_t>(found - gradient.names.begin())];
}

// All losses with their graph, and their weights; [n] float64 on the host.
struct WeightedLosses {
  at::Tensor losses, weights;

  at::Tensor total() const { return losses.mul(weights).sum(); }
};

WeightedLosses weighted_losses(const ObjectiveResult& result, const MicroBatch& micro,
                               bool* narrow) {
  std::vector<at::Tensor> losses, weights;
  for (const auto& [unit, loss] : result.losses) {
    *narrow = *narrow || loss.scalar_type() != at::kDouble;
    losses.push_back(loss.to(at::kDouble).cpu().reshape({-1}));
    weights.push_back(micro.unit_weight(unit).to(at::kCPU, at::kDouble).reshape({-1}));
  }
  return {at::cat(losses), at::cat(weights)};
}

// The row of the data that each loss is of, where one of them is no number; else empty.
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

// (above - below) / 2h, and how far rounding may have moved it.
struct Slope {
  double value = 0, noise = 0;
};

double noise_of(double loss, double weight, double h, bool narrow) {
  const double eps =
      narrow ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  return std::fabs(weight) * kRoundings * eps * std::max(1.0, std::fabs(loss)) / (2 * h);
}

// A loss that is no number on both sides counts where it is `own`'s.
Slope slope_between(const WeightedLosses& above, const WeightedLosses& below,
                    const std::function<bool(int64_t i)>& own, double h, bool narrow) {
  const at::Tensor a = above.losses.contiguous(), b = below.losses.contiguous();
  const at::Tensor w = above.weights.contiguous();
  Slope slope;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double up = a.const_data_ptr<double>()[i], down = b.const_data_ptr<double>()[i];
    const double weight = w.const_data_ptr<double>()[i];
    const bool neither = std::isnan(up) && std::isnan(down);
    if (up == down || (neither && !own(i))) continue;
    slope.value += weight * (up - down) / (2 * h);
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
    values[r] = 2 * philox_unit(leaf, kStreamStandIn, 1, static_cast<uint64_t>(r)) - 1;
  }
  return direction;
}

// Over these loss rows alone: 0 times another row's NaN would be NaN.
double slope_along(const at::Tensor& gradient, const at::Tensor& direction,
                   const std::vector<int64_t>& own) {
  const at::Tensor g = gradient.to(at::kCPU, at::kDouble).contiguous();
  double slope = 0;
  for (const int64_t r : own) {
    slope += g.const_data_ptr<double>()[r] * direction.const_data_ptr<double>()[r];
  }
  return slope;
}

}  // namespace

ObjectiveGradient objective_gradient(std::span<const StepPart> parts, AdamW& adamw,
                                     const StepOptions& options) {
  const RandomScope random;
  ObjectiveGradient out;
  const auto read = [&] {
    for (size_t i = 0; i < adamw.trainables().size(); ++i) {
      const std::string prefix = i == 0 ? "" : std::to_string(i) + "/";
      for (const Parameter& one : adamw.trainables()[i]->parameters()) {
        if (!one.master.grad().defined()) continue;
        out.names.push_back(prefix + one.name);
        out.gradients.push_back(one.master.grad().detach().to(at::kCPU, at::kFloat, false, true));
      }
    }
  };
  out.metrics = step_without_update(parts, adamw, read, options);
  for (const auto& [name, value] : out.metrics) {
    if (name == "grad_norm") out.norm = value;
  }
  return out;
}

std::vector<GradientAngle> compare_gradients(const ObjectiveGradient& first,
                                             const ObjectiveGradient& second) {
  std::vector<std::string> names = first.names;
  for (const std::string& name : second.names) {
    if (find(first, name) == nullptr) names.push_back(name);
  }
  Sums all;
  std::vector<std::pair<std::string, Sums>> groups;  // in the order of the weights
  for (const std::string& name : names) {
    const at::Tensor *a = find(first, name), *b = find(second, name);
    Sums sums;
    if (a != nullptr) sums.first = dot_of(*a, *a);
    if (b != nullptr) sums.second = dot_of(*b, *b);
    if (a != nullptr && b != nullptr) sums.dot = dot_of(*a, *b);
    all.add(sums);
    const std::string group = group_of(name);
    auto known = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& one) { return one.first == group; });
    if (known == groups.end()) known = groups.insert(groups.end(), {group, {}});
    known->second.add(sums);
  }
  std::vector<GradientAngle> angles = {all.angle("all")};
  for (const auto& [group, sums] : groups) angles.push_back(sums.angle(group));
  return angles;
}

bool LogprobCheck::agrees(const Unit& unit) const {
  return unit.error <= (narrow ? kAgreesNarrow : kAgrees);
}

bool parts_more(const LogprobCheck::Unit& a, const LogprobCheck::Unit& b) {
  if (std::isnan(a.error) || std::isnan(b.error)) {
    return std::isnan(a.error) && !std::isnan(b.error);
  }
  return a.error > b.error;
}

LogprobCheck check_logprobs(MicroBatch& micro, const Objective& objective,
                            const std::function<std::vector<at::Tensor>(MicroBatch&)>& leaves) {
  const RandomScope random;
  LogprobCheck check;
  const auto result_now = [&] {
    at::manual_seed(0);  // an objective that draws draws the same each time
    ObjectiveResult result = objective(micro);
    check_result(result, micro);
    return result;
  };
  const auto losses_now = [&] { return weighted_losses(result_now(), micro, &check.narrow); };
  std::vector<int64_t> loss_rows;
  double largest_weight = 0;  // the largest of a loss
  {
    const at::AutoGradMode gradients_on(true);
    const ObjectiveResult result = result_now();
    loss_rows = rows_of_losses(result, micro);
    const WeightedLosses losses = weighted_losses(result, micro, &check.narrow);
    if (losses.weights.numel() > 0) largest_weight = losses.weights.abs().max().item().toDouble();
    const at::Tensor total = losses.total();
    if (total.requires_grad()) total.backward();
  }
  const std::vector<at::Tensor> moved = leaves(micro);
  const at::NoGradGuard no_grad;
  const double h = check.narrow ? kNarrowStep : kStep;
  const double least_noise = noise_of(1, largest_weight, h, check.narrow);
  std::vector<int64_t> rows = micro.pack().row_id;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  for (const int64_t row : rows) {
    LogprobCheck::Unit unit{.row = row};
    const std::vector<int64_t> own = loss_rows_of(micro, row);
    std::vector<at::Tensor> directions;
    for (size_t k = 0; k < moved.size(); ++k) {
      const at::Tensor direction = direction_in(own, micro.row_count(), k);
      if (moved[k].grad().defined()) unit.analytic += slope_along(moved[k].grad(), direction, own);
      directions.push_back(direction.to(moved[k].device(), moved[k].dtype()));
    }
    const auto move = [&](double by) {
      for (size_t k = 0; k < moved.size(); ++k) moved[k].detach().add_(directions[k], by);
    };
    const auto owned = [&](int64_t i) {
      return loss_rows.empty() || loss_rows[static_cast<size_t>(i)] == row;
    };
    move(h);
    const WeightedLosses above = losses_now();
    move(-2 * h);
    const Slope slope = slope_between(above, losses_now(), owned, h, check.narrow);
    move(h);
    unit.numeric = slope.value;
    if (unit.analytic == 0 && unit.numeric == 0) {
      ++check.without;
      continue;
    }
    const double size = std::max(std::fabs(unit.analytic), std::fabs(unit.numeric));
    const double apart = std::fabs(unit.analytic - unit.numeric);
    const double noise = std::max(slope.noise, least_noise);
    if (noise > kUnsure * size && apart <= noise) {
      ++check.unsure;
      continue;
    }
    unit.error = apart <= noise ? 0 : (apart - noise) / size;
    check.units.push_back(unit);
  }
  std::stable_sort(check.units.begin(), check.units.end(), parts_more);
  return check;
}

}  // namespace xrun
