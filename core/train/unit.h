#pragma once
// The units in which an objective may return its losses.

#include <string_view>

namespace xrun {

enum class Unit { kPair, kSequence, kToken, kGroup, kChunk };

// All of them, in the order in which a length is looked for among them.
inline constexpr Unit kUnits[] = {Unit::kPair, Unit::kSequence, Unit::kToken, Unit::kGroup,
                                  Unit::kChunk};

// Returns "pair", "token", "sequence", "group" or "chunk".
const char* unit_name(Unit unit);

// Returns the unit of a name. Throws Error that lists the names otherwise.
Unit unit_of(std::string_view name);

}  // namespace xrun
