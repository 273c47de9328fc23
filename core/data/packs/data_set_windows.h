#pragma once
// The windows of a set of text. Their ids count through the sources as row ids do: window w of
// source s is first[s] + w.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "core/data/packs/data_set.h"
#include "core/data/packs/text_windows.h"

namespace xrun {

struct DataSet::Windows {
  int64_t length = 0;
  std::vector<TextWindows> sources;
  std::vector<int64_t> first = {0};  // window of each source; their number at the end

  size_t source_of(int64_t window) const {
    XRUN_CHECK(window >= 0 && window < first.back(), "window {} is out of range, the set has {}",
               window, first.back());
    const auto next = std::upper_bound(first.begin(), first.end(), window);
    return static_cast<size_t>(next - first.begin()) - 1;
  }
  std::vector<TextWindows::Piece> pieces(int64_t window) const {
    const size_t s = source_of(window);
    return sources[s].pieces(window - first[s]);
  }
};

}  // namespace xrun
