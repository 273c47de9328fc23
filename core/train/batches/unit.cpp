// unit[i] = number of ids[i] by first occurrence, -1 for a negative id, which belongs to no unit;
// sum(x)[u] = sum of x[i] over unit[i] == u.

#include "core/train/batches/unit.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <unordered_map>

#include "core/base/error.h"
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
    // A hash table only looks ids up; the order of units is that of the members.
    const auto [found, is_new] = number.emplace(ids[i], out.count());
    if (is_new) out.first.push_back(static_cast<int64_t>(i));
    out.unit.push_back(found->second);
  }
  return out;
}

template <typename T>
at::Tensor to_tensor(const std::vector<T>& values, at::ScalarType from, at::ScalarType to) {
  const auto size = static_cast<int64_t>(values.size());
  // No copy yet: clone() or to() below makes the tensor own its memory.
  const at::Tensor view = at::from_blob(const_cast<T*>(values.data()), {size}, from);
  return to == from ? view.clone() : view.to(to);
}

}  // namespace

const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::kPair: return "pair";
    case Unit::kToken: return "token";
    case Unit::kSequence: return "sequence";
    case Unit::kGroup: return "group";
    case Unit::kChunk: return "chunk";
  }
  return "unknown";
}

Unit unit_of(std::string_view name) {
  for (Unit unit : kUnits) {
    if (name == unit_name(unit)) return unit;
  }
  throw Error(fmt::format(
      "\"{}\" is not a unit of a loss; the units are pair, token and sequence (group and "
      "chunk where the data have them)",
      name));
}

at::Tensor Grouping::sum(const at::Tensor& x) const {
  // Members of no unit are left out, so their values never reach a sum.
  std::vector<int64_t> member, number;
  for (size_t i = 0; i < unit.size(); ++i) {
    if (unit[i] < 0) continue;
    member.push_back(static_cast<int64_t>(i));
    number.push_back(unit[i]);
  }
  const auto index = at::TensorOptions().dtype(at::kLong);
  const at::Tensor chosen =
      at::index_select(x, 0, on_device(at::tensor(member, index), x.device()));
  return at::index_add(at::zeros({count()}, x.options()), 0,
                       on_device(at::tensor(number, index), x.device()), chosen);
}

Grouping group_by(const std::vector<int64_t>& ids) { return number_units(ids); }
Grouping group_by(const std::vector<int32_t>& ids) { return number_units(ids); }

at::Tensor int64_tensor(const std::vector<int32_t>& values) {
  return to_tensor(values, at::kInt, at::kLong);
}

at::Tensor float_tensor(const std::vector<float>& values) {
  return to_tensor(values, at::kFloat, at::kFloat);
}

}  // namespace xrun
