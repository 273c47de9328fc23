#include "core/train/grouping.h"

#include <ATen/ops/index_add.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <unordered_map>

#include "core/model/ops/device.h"

namespace xrun {
namespace {

template <typename T>
Grouping number_units(const std::vector<T>& ids) {
  Grouping out;
  std::unordered_map<T, int64_t> number;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) {
      out.unit.push_back(-1);
      continue;
    }
    const auto [found, is_new] = number.emplace(ids[i], out.count());
    if (is_new) out.first.push_back(static_cast<int64_t>(i));
    out.unit.push_back(found->second);
  }
  return out;
}

}  // namespace

at::Tensor Grouping::sum(const at::Tensor& x) const {
  std::vector<int64_t> member, place;
  for (size_t i = 0; i < unit.size(); ++i) {
    if (unit[i] < 0) continue;
    member.push_back(static_cast<int64_t>(i));
    place.push_back(unit[i]);
  }
  const auto ids = at::TensorOptions().dtype(at::kLong);
  const at::Tensor chosen = at::index_select(x, 0, on_device(at::tensor(member, ids), x.device()));
  return at::index_add(at::zeros({count()}, x.options()), 0,
                       on_device(at::tensor(place, ids), x.device()), chosen);
}

Grouping group_by(const std::vector<int64_t>& ids) { return number_units(ids); }
Grouping group_by(const std::vector<int32_t>& ids) { return number_units(ids); }

}  // namespace xrun
