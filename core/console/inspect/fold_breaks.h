#pragma once
// Explains why similar rows of a step do not share their prefixes, by the first token that differs,
// its text and its origin.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/data/rows/row.h"
#include "core/prefix/row_breaks.h"

namespace xrun {

struct FoldSettings;
struct InspectedPack;
struct InspectedSegment;
struct InspectedStep;
struct PackedBatch;

// Two rows that look alike and share only `position` tokens.
struct InspectedBreak {
  struct BreakSide {
    std::string file;
    int64_t line = 0;           // from 1
    int8_t side = 0;            // +1 chosen, -1 rejected
    int32_t token = 0;          // the first token that is not shared
    std::string text;           // its text, with visible blanks
    std::string origin;         // "template", "message", "both"; "" if unknown
    std::string role;           // of its message; "" if unknown, or outside messages
    int32_t template_line = 0;  // the line that wrote it; 0: unknown
  };
  BreakCause cause = BreakCause::kShort;
  int64_t position = 0;
  std::array<BreakSide, 2> sides;
  std::string sentence;  // all of the above in words
};

// Returns the rendering that a segment came from; nullptr if it is unknown.
using StreamOf = std::function<const RowTrace::Stream*(const InspectedSegment& segment)>;

// Compares the shown segments of a step, and adds each break to the pack of its later row.
void add_breaks(const FoldSettings& fold, const StreamOf& stream_of, InspectedStep& step);

// Returns the reason that a pack whose segments share prefixes is not folded; "" if they share none
// or no reason is known. `frequency_classes`: as FoldOptions::frequency_classes.
std::string unfolded_text(const PackedBatch& pack, const FoldSettings& fold,
                          const std::vector<int64_t>& frequency_classes);

// Breaks of the same cause, in the same message and template line.
struct BreakGroup {
  const InspectedBreak* example = nullptr;  // the first break
  int64_t count = 0;

  std::string text() const;  // the example's sentence and the number of the other breaks
};

// Returns the groups of all breaks of the packs, the largest first.
std::vector<BreakGroup> break_groups(std::span<const InspectedPack> packs);

}  // namespace xrun
