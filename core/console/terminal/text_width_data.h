#pragma once
// The generated table behind text_width.h; make/text_width_data.py writes text_width_data.cpp.

#include <cstddef>
#include <cstdint>

namespace xrun {

struct WidthRange {
  uint32_t first;  // inclusive, sorted, apart
  uint32_t last;
  uint8_t columns;  // 0 or 2; 1 outside of all ranges
};

extern const WidthRange kWidthRanges[];
extern const size_t kWidthRangeCount;

}  // namespace xrun
