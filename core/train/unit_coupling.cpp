#include "core/train/unit_coupling.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "core/train/micro_batch.h"

namespace xrun {

namespace {

constexpr double kMove = 0.25;
constexpr double kRounding = 1e-5;  // of a loss in fp32, whose sums may be taken in another order

// The unit that each loss row belongs to, [R]; empty for units that are not told apart here.
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

// Leaves that are moved while it lives, and moved back.
class Moved {
 public:
  Moved(std::vector<at::Tensor> leaves, at::Tensor by)
      : leaves_(std::move(leaves)), by_(std::move(by)) {
    add(1);
  }
  ~Moved() { add(-1); }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

 private:
  void add(double sign) {
    for (const at::Tensor& leaf : leaves_) {
      leaf.detach().add_(by_.to(leaf.device(), leaf.scalar_type()), sign);
    }
  }

  std::vector<at::Tensor> leaves_;
  at::Tensor by_;
};

}  // namespace

std::string coupled_row(MicroBatch& micro, const Objective& objective,
                        const std::function<std::vector<at::Tensor>(MicroBatch&)>& leaves) {
  const at::AutoGradMode gradients_on(true);  // so that the objective reads the leaves
  const ObjectiveResult before = objective(micro);
  if (before.losses.size() != 1) return "";
  const Unit unit = before.losses.front().first;
  const std::vector<int64_t> unit_of = units_of_rows(micro, unit);
  if (unit_of.empty()) return "";
  const std::vector<double> was = losses_of(before);
  const std::vector<double> now = [&] {
    const Moved moved(leaves(micro), moves(unit_of));
    return losses_of(objective(micro));
  }();
  for (size_t u = 0; u < was.size(); u += 2) {
    const double scale = std::max(1.0, std::abs(was[u]));
    if (std::abs(now[u] - was[u]) <= kRounding * scale) continue;
    return micro.row_name(micro.unit_row(unit, static_cast<int64_t>(u)));
  }
  return "";
}

}  // namespace xrun
