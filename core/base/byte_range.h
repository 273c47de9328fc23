#pragma once
// A half-open range of bytes of a text.

#include <cstdint>

namespace xrun {

struct ByteRange {
  uint32_t begin;
  uint32_t end;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace xrun
