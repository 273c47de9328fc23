#pragma once
// Windows of a text stream: a source's documents laid end to end and cut at equal lengths.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/data/cache/row_cache.h"

namespace xrun {

// Window w of rows [begin, end) holds `length` tokens of their stream, the last one what is left.
// Neighbours share one token, the last of one and the first of the next, so that every token but a
// document's first is a target exactly once. A pure function of its arguments; thread-safe.
class TextWindows {
 public:
  // Requires 0 <= begin <= end <= cache->size(); throws Error unless length >= 2.
  TextWindows(std::shared_ptr<const RowCache> cache, int64_t begin, int64_t end, int64_t length);

  int64_t size() const { return size_; }

  // A stretch of a document inside a window: tokens [begin, end) of a row.
  struct Piece {
    int64_t row;
    int64_t begin, end;
  };
  // The pieces of a window, in order; those of one token alone, which train nothing, are left out.
  std::vector<Piece> pieces(int64_t window) const;

 private:
  std::shared_ptr<const RowCache> cache_;
  int64_t end_row_;
  int64_t first_, last_;  // tokens of the cache's stream
  int64_t stride_;
  int64_t size_;
};

}  // namespace xrun
