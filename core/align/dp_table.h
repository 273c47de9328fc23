#pragma once
// NeMo-RL's dynamic programme for the tokens between two anchors.

#include <algorithm>
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

// Aligns one stretch of two sequences after the other, in the same memory.
class DpTable {
 public:
  // `ids` has the strings of both sequences; all three must outlive this. Throws Error unless the
  // options are in range.
  DpTable(const CanonicalTokens& s, const CanonicalTokens& t, const StringIds& ids,
          const DpOptions& options);

  // Appends the best alignment of a stretch: 1:1 pairs, 1:n and n:1 pairs with n <=
  // max_combination, and orphans. Throws Error if its trace exceeds the limit.
  void align(const DpSpan& stretch, std::vector<DpSpan>& out);

 private:
  // The last `size` teacher tokens before a column of the stretch, joined.
  struct JoinedTokens {
    int32_t id, size, column;
  };
  // The size of a text as one bit of a set; bit 63 stands for all sizes from 63 on.
  static uint64_t size_bit(size_t size) { return uint64_t{1} << std::min<size_t>(size, 63); }
  static std::span<const JoinedTokens> with_id(const std::vector<JoinedTokens>& sorted, int32_t id);
  void find_joined(const DpSpan& stretch);
  bool add_combinations(const DpSpan& stretch, int32_t row);
  void offer(int32_t column, int32_t key);
  void fill_row(const DpSpan& stretch, int32_t row, bool combined);
  void backtrace(const DpSpan& stretch, std::vector<DpSpan>& out) const;
  int32_t* row_of(int32_t row);

  const CanonicalTokens& s_;
  const CanonicalTokens& t_;
  const StringIds& ids_;
  const DpOptions options_;
  // The teacher tokens of the current stretch, and the joined runs of them that spell a token. Both
  // are sorted by id.
  std::vector<JoinedTokens> t_single_, t_joined_;
  uint64_t t_sizes_ = 0;           // size bits of the teacher tokens alone
  std::vector<int32_t> rows_;      // the current row and max_combination before it
  std::vector<int32_t> combined_;  // keys of the row's combinations
  size_t row_size_ = 0;
  std::unique_ptr<uint8_t[]> trace_;  // [students, teachers] of the stretch
  size_t trace_size_ = 0;
};

}  // namespace xrun
