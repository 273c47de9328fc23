#pragma once
// The units in which an objective may return its losses, and the columns of a pack by unit.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace xrun {

enum class Unit { kPair, kSequence, kToken, kGroup, kChunk };

// All units. If two have the same count and nothing else tells them apart, the first one counts.
inline constexpr Unit kUnits[] = {Unit::kPair, Unit::kSequence, Unit::kToken, Unit::kGroup,
                                  Unit::kChunk};

// Returns "pair", "token", "sequence", "group" or "chunk".
const char* unit_name(Unit unit);

// Returns the unit of a name. Throws Error that lists the names otherwise.
Unit unit_of(std::string_view name);

// The unit that each member belongs to, for units that the data name by an id. Units are numbered
// by their first member, so the numbering follows the order of members.
struct Grouping {
  std::vector<int64_t> unit;   // [members], the number of its unit; -1 for none
  std::vector<int64_t> first;  // [units], the first member of each

  int64_t count() const { return static_cast<int64_t>(first.size()); }

  // Sums x over the members of each unit: [members] -> [units]. Deterministic; differentiable.
  at::Tensor sum(const at::Tensor& x) const;
};

// Members of one id >= 0 form a unit; those of a negative id belong to none.
Grouping group_by(const std::vector<int64_t>& ids);
Grouping group_by(const std::vector<int32_t>& ids);

// Columns of a pack as tensors on the CPU; copies.
at::Tensor int64_tensor(const std::vector<int32_t>& values);  // [n] int64, the index type of ATen
at::Tensor float_tensor(const std::vector<float>& values);    // [n] float32

}  // namespace xrun
