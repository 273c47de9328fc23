#include "core/train/unit.h"

#include "core/base/error.h"

namespace xrun {

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
  throw Error(
      fmt::format("\"{}\" is no unit of a loss; the units are pair, token and sequence (group and "
                  "chunk where the data have them)",
                  name));
}

}  // namespace xrun
