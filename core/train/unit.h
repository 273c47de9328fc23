#pragma once
// The units in which an objective may return its losses.

#include <string_view>

namespace xrun {

enum class Unit { kPair, kToken, kSequence, kGroup, kChunk };

// Returns "pair", "token", "sequence", "group" or "chunk".
const char* unit_name(Unit unit);

// Returns the unit of a name. Throws Error that lists the names otherwise.
Unit unit_of(std::string_view name);

}  // namespace xrun
