#pragma once
// Windows of a text stream: the documents of a source, laid end to end and cut into equal lengths.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/data/cache/row_cache.h"

namespace xrun {

// A window holds `length` tokens of the stream of rows [begin, end); the last one holds the rest.
// The last token of a window is also the first of the next, so that every token but a document's
// first is a target exactly once. A pure function of its arguments. Thread-safe.
class TextWindows {
 public:
  // Requires 0 <= begin <= end <= cache->size(); throws Error unless length >= 2.
  TextWindows(std::shared_ptr<const RowCache> cache, int64_t begin, int64_t end, int64_t length);

  int64_t size() const { return size_; }

  // The part of a document in a window: tokens [begin, end) of a row.
  struct WindowPiece {
    int64_t row;
    int64_t begin, end;
  };
  // Returns the pieces of a window in order, without those of a single token, which train nothing.
  std::vector<WindowPiece> pieces(int64_t window) const;

 private:
  std::shared_ptr<const RowCache> cache_;
  int64_t end_row_;
  int64_t first_, last_;  // tokens of the cache's stream
  int64_t stride_;
  int64_t size_;
};

}  // namespace xrun
