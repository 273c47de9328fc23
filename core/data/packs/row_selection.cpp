#include "core/data/packs/row_selection.h"

#include "core/data/packs/split.h"

namespace xrun {

int64_t RowSelection::size() const {
  int64_t total = 0;
  for (const Part& part : parts) total += part.size();
  return total;
}

std::pair<RowSelection, RowSelection> RowSelection::split_last(double fraction) const {
  std::pair<RowSelection, RowSelection> sets;
  for (const Part& part : parts) {
    const int64_t kept = part.size() - held_out_count(part.size(), fraction);
    if (part.listed) {
      const auto border = part.rows.begin() + kept;
      sets.first.parts.push_back({0, 0, {part.rows.begin(), border}, true});
      sets.second.parts.push_back({0, 0, {border, part.rows.end()}, true});
    } else {
      sets.first.parts.push_back({part.begin, part.begin + kept, {}, false});
      sets.second.parts.push_back({part.begin + kept, part.end, {}, false});
    }
  }
  return sets;
}

std::pair<RowSelection, RowSelection> RowSelection::split_flagged(
    std::span<const uint8_t> held_out) const {
  std::pair<RowSelection, RowSelection> sets;
  size_t i = 0;
  for (const Part& part : parts) {
    sets.first.parts.push_back({0, 0, {}, true});
    sets.second.parts.push_back({0, 0, {}, true});
    for (int64_t k = 0; k < part.size(); ++k, ++i) {
      RowSelection& set = held_out[i] != 0 ? sets.second : sets.first;
      set.parts.back().rows.push_back(part.at(k));
    }
  }
  return sets;
}

}  // namespace xrun
