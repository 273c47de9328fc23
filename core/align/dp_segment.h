#pragma once
// The dynamic programme of NeMo-RL's aligner over one stretch of tokens.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/align/dp_align.h"
#include "core/align/dp_canonical.h"

namespace xrun {

// Half-open ranges of canonical tokens; an empty side has begin == end.
struct DpSpan {
  int32_t s_begin, s_end, t_begin, t_end;
  int32_t students() const { return s_end - s_begin; }
  int32_t teachers() const { return t_end - t_begin; }
};

// Positions by id: for each id the rising positions of a sequence that have it.
class PositionsById {
 public:
  // An id of -1 is at no position.
  PositionsById(std::span<const int32_t> ids, int32_t id_count);
  // Returns the positions of an id in [first, last).
  std::span<const int32_t> of(int32_t id, int32_t first, int32_t last) const;

 private:
  std::vector<int32_t> begin_, at_;
};

// Aligns stretches of two sequences, one after the other, in memory that it reuses.
class DpSegments {
 public:
  // The sequences and ids must outlive this. Throws Error unless the options are in range.
  DpSegments(const CanonicalTokens& s, const CanonicalTokens& t, const StringIds& ids,
             const DpOptions& options);

  // Appends the best alignment of a stretch: pairs of one token and one, of one and up to
  // max_combination, and orphans. Throws Error if its trace exceeds the limit.
  void align(const DpSpan& stretch, std::vector<DpSpan>& out);

 private:
  bool add_combinations(const DpSpan& stretch, int32_t row);
  void offer(int32_t column, int32_t key);
  void fill_row(const DpSpan& stretch, int32_t row, bool combined);
  void backtrace(const DpSpan& stretch, std::vector<DpSpan>& out) const;
  int32_t* row_of(int32_t row);

  const CanonicalTokens& s_;
  const CanonicalTokens& t_;
  const DpOptions options_;
  PositionsById t_tokens_;
  // Of k tokens together, at [k - 2]: the id of the student's that end before n, at [n]; the ends
  // of the teacher's.
  std::vector<std::vector<int32_t>> s_joined_;
  std::vector<PositionsById> t_joined_;
  std::vector<int32_t> rows_;      // the current row and max_combination before it
  std::vector<int32_t> combined_;  // keys of the row's combinations
  size_t row_size_ = 0;
  std::unique_ptr<uint8_t[]> trace_;  // [students, teachers] of the stretch
  size_t trace_size_ = 0;
};

}  // namespace xrun
