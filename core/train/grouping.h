#pragma once
// Which of several units each member belongs to, for units that the data name by an id.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace xrun {

// Units are numbered by their first member, so that the numbering follows the order of members.
struct Grouping {
  std::vector<int64_t> unit;   // [members], the number of its unit; -1: it belongs to none
  std::vector<int64_t> first;  // [units], the first member of each

  int64_t count() const { return static_cast<int64_t>(first.size()); }

  // Sums x over the members of each unit: [members] -> [units]. Deterministic; differentiable.
  at::Tensor sum(const at::Tensor& x) const;
};

// Members of one id >= 0 form a unit; those of a negative id belong to none.
Grouping group_by(const std::vector<int64_t>& ids);
Grouping group_by(const std::vector<int32_t>& ids);

}  // namespace xrun
