#pragma once
// Finds the roles, origins and cuts of shown segments by rendering their rows again.

#include <cstdint>
#include <map>
#include <vector>

#include "core/console/inspect/inspected_pack.h"

namespace xrun {

// The renderings of the rows of all shown segments, each row read once.
class SegmentTraces {
 public:
  SegmentTraces(const InspectedSource& source, const InspectedStep& step);

  bool windows() const { return windows_; }  // true: segments are pieces of rows, without traces
  const RowTrace& row(const InspectedSegment& segment) const {
    return traces_[index_.at(segment.row)];
  }
  // Returns the rendering that a segment came from; nullptr if there is none.
  const RowTrace::Stream* stream(const InspectedSegment& segment) const;

 private:
  const bool windows_;
  std::map<int64_t, size_t> index_;  // a row's index in traces_
  std::vector<RowTrace> traces_;
};

// Adds roles, origins, cuts and remarks to the segments of a step.
void trace_segments(const InspectedSource& source, const SegmentTraces& traces,
                    InspectedStep& step);

}  // namespace xrun
