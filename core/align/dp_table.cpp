// The reference maximises D(i, j) over alignments of i student and j teacher tokens. It tries moves
// in this order, and a later one replaces an earlier one only if it is better:
//   diagonal   D(i-1, j-1) + 3 if the tokens are equal, else - 3
//   up, left   D(i-1, j) - 1.5, D(i, j-1) - 1.5
//   student k  D(i-1, j-k) + 1.5 k if student token i is the last k teacher tokens joined
//   teacher k  D(i-k, j-1) + 1.5 k if teacher token j is the last k student tokens joined
// F = D / 1.5 + i + j has the same order and makes gaps free: equal tokens give 4, a combination
// 2k + 1, everything else 0, and the borders are 0. A cell is stored as the key 16 F + rank, where
// earlier moves have higher ranks, so the largest key is the first of the best moves.

#include "core/align/dp_table.h"

#include <algorithm>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/interrupt.h"

namespace xrun {
namespace {

constexpr int32_t kUnit = 16;  // one unit of F in a key; the bits below hold the move
constexpr int32_t kDiagonal = 15, kUp = 14, kLeft = 13;
constexpr int kMostCombined = 7;
// Ranks of combinations fall with k: students 12 to 7, teachers 6 to 1.
constexpr int32_t student_rank(int32_t k) { return 14 - k; }
constexpr int32_t teacher_rank(int32_t k) { return 8 - k; }
constexpr int32_t combination_gain(int32_t k) { return (2 * k + 1) * kUnit; }
// Takes values, which GCC 12 compiles without branches. With std::max, whose branches no processor
// predicts in a repetitive text, 2048 x 2048 cells took 29 ms instead of 6.
constexpr int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
// F is at most 2 (i + j), so that the keys fit 32 bits.
constexpr int64_t kMostDpTokens = int64_t{1} << 25;

}  // namespace

DpTable::DpTable(const CanonicalTokens& s, const CanonicalTokens& t, const StringIds& ids,
                 const DpOptions& options)
    : s_(s), t_(t), ids_(ids), options_(options) {
  XRUN_CHECK(options.max_combination >= 1 && options.max_combination <= kMostCombined,
             "dp alignment: max_combination is {}, wanted 1 to {}", options.max_combination,
             kMostCombined);
  XRUN_CHECK(s.size() + int64_t{t.size()} <= kMostDpTokens,
             "dp alignment: {} tokens, wanted at most {}", s.size() + int64_t{t.size()},
             kMostDpTokens);
}

// Lists the stretch's teacher tokens by id, alone and joined.
void DpTable::find_joined(const DpSpan& stretch) {
  t_single_.clear();
  t_joined_.clear();
  t_sizes_ = 0;
  // The sizes of the student tokens. Most joined tokens have another size, and comparing sizes is
  // cheaper than comparing texts.
  uint64_t s_sizes = 0;
  for (int32_t n = stretch.s_begin; n < stretch.s_end; ++n) s_sizes |= size_bit(s_.text_size(n));
  for (int32_t column = 1; column <= stretch.teachers(); ++column) {
    const int32_t end = stretch.t_begin + column;
    t_single_.push_back({t_.id[static_cast<size_t>(end - 1)], 1, column});
    t_sizes_ |= size_bit(t_.text_size(end - 1));
    const int32_t most = std::min(column, options_.max_combination);
    t_.each_joined(end, most, [&](int32_t k, size_t size) {
      if ((s_sizes & size_bit(size)) == 0) return;
      const int32_t id = ids_.find(t_.text(end - k, end));
      if (id >= 0) t_joined_.push_back({id, k, column});
    });
  }
  for (std::vector<JoinedTokens>* list : {&t_single_, &t_joined_}) {
    std::ranges::sort(*list, {}, &JoinedTokens::id);
  }
}

std::span<const DpTable::JoinedTokens> DpTable::with_id(const std::vector<JoinedTokens>& sorted,
                                                        int32_t id) {
  const auto first = std::ranges::lower_bound(sorted, id, {}, &JoinedTokens::id);
  return {first, std::ranges::upper_bound(first, sorted.end(), id, {}, &JoinedTokens::id)};
}

// Rows are kept in a ring, since a combination reaches back at most max_combination rows.
int32_t* DpTable::row_of(int32_t row) {
  return rows_.data() + static_cast<size_t>(row % (options_.max_combination + 1)) * row_size_;
}

// Keeps the best combination that ends in this column; 0 is below every key.
void DpTable::offer(int32_t column, int32_t key) {
  int32_t& best = combined_[static_cast<size_t>(column)];
  best = std::max(best, key);
}

// Puts the row's combinations into combined_; returns true if there are any.
bool DpTable::add_combinations(const DpSpan& stretch, int32_t row) {
  bool any = false;
  const int32_t end = stretch.s_begin + row;
  const int32_t* above = row_of(row - 1);
  for (const JoinedTokens& t : with_id(t_joined_, s_.id[static_cast<size_t>(end - 1)])) {
    offer(t.column, above[t.column - t.size] + combination_gain(t.size) + student_rank(t.size));
    any = true;
  }
  const int32_t most = std::min(row, options_.max_combination);
  s_.each_joined(end, most, [&](int32_t k, size_t size) {
    if ((t_sizes_ & size_bit(size)) == 0) return;
    const int32_t id = ids_.find(s_.text(end - k, end));
    if (id < 0) return;
    const int32_t* before = row_of(row - k);
    for (const JoinedTokens& t : with_id(t_single_, id)) {
      offer(t.column, before[t.column - 1] + combination_gain(k) + teacher_rank(k));
      any = true;
    }
  });
  return any;
}

void DpTable::fill_row(const DpSpan& stretch, int32_t row, bool combined) {
  const int32_t columns = stretch.teachers();
  const int32_t token = s_.id[static_cast<size_t>(stretch.s_begin + row - 1)];
  const int32_t* teacher = t_.id.data() + stretch.t_begin;
  const int32_t* above = row_of(row - 1);
  const int32_t* offered = combined_.data();
  int32_t* values = row_of(row);
  uint8_t* moves = trace_.get() + static_cast<size_t>(row - 1) * static_cast<size_t>(columns);
  values[0] = 0;
  int32_t left = 0;
  // Compiled as two loops, since most rows of ordinary text have no combination.
  const auto fill = [&](auto has_combinations) {
    for (int32_t j = 1; j <= columns; ++j) {
      const int32_t match = teacher[j - 1] == token ? 4 * kUnit : 0;
      int32_t key = larger(above[j - 1] + match + kDiagonal, above[j] + kUp);
      if constexpr (has_combinations.value) key = larger(key, offered[j]);
      key = larger(key, left + kLeft);
      moves[j - 1] = static_cast<uint8_t>(key & (kUnit - 1));
      // The low bits are the rank of the move, the rest is F. The rank must not enter later sums.
      left = key & -kUnit;
      values[j] = left;
    }
  };
  if (combined) {
    fill(std::true_type());
  } else {
    fill(std::false_type());
  }
}

void DpTable::backtrace(const DpSpan& stretch, std::vector<DpSpan>& out) const {
  const size_t first = out.size();
  int32_t i = stretch.students(), j = stretch.teachers();
  const size_t columns = static_cast<size_t>(j);
  while (i > 0 || j > 0) {
    int32_t students = 1, teachers = 1;  // of the move
    // At a border only one side is left, and there is no trace.
    if (j == 0) {
      teachers = 0;
    } else if (i == 0) {
      students = 0;
    } else {
      const int32_t move =
          trace_[static_cast<size_t>(i - 1) * columns + static_cast<size_t>(j - 1)];
      if (move == kUp) {
        teachers = 0;
      } else if (move == kLeft) {
        students = 0;
      } else if (move <= teacher_rank(2)) {
        // teacher_rank(k) is 8 - k, so k is 8 - move; the same holds for students below.
        students = teacher_rank(0) - move;
      } else if (move <= student_rank(2)) {
        teachers = student_rank(0) - move;
      }
    }
    const int32_t s_end = stretch.s_begin + i, t_end = stretch.t_begin + j;
    out.push_back({s_end - students, s_end, t_end - teachers, t_end});
    i -= students;
    j -= teachers;
  }
  std::reverse(out.begin() + static_cast<ptrdiff_t>(first), out.end());
}

void DpTable::align(const DpSpan& stretch, std::vector<DpSpan>& out) {
  const int32_t rows = stretch.students(), columns = stretch.teachers();
  if (rows == 0 && columns == 0) return;  // between two anchors that touch
  // One token of each side is a pair, since the diagonal has the highest rank.
  if (rows == 1 && columns == 1) return out.push_back(stretch);
  const size_t cells = static_cast<size_t>(rows) * static_cast<size_t>(columns);
  XRUN_CHECK(cells <= static_cast<size_t>(options_.trace_mb) << 20,
             "dp alignment: {} student and {} teacher tokens without an anchor need {} MB, wanted "
             "at most {}; align shorter texts",
             rows, columns, (cells >> 20) + 1, options_.trace_mb);
  // Grows by doubling, since a document aligns many stretches of rising size.
  if (cells > trace_size_) {
    trace_size_ = std::max(cells, 2 * trace_size_);
    trace_ = std::make_unique_for_overwrite<uint8_t[]>(trace_size_);
  }
  row_size_ = static_cast<size_t>(columns) + 1;
  const size_t all_rows = row_size_ * static_cast<size_t>(options_.max_combination + 1);
  if (rows_.size() < all_rows) rows_.resize(all_rows);
  if (combined_.size() < row_size_) combined_.resize(row_size_, 0);
  std::fill_n(row_of(0), row_size_, 0);
  if (rows > 0) find_joined(stretch);
  for (int32_t row = 1; row <= rows && columns > 0; ++row) {
    check_work_interrupt();
    const bool combined = add_combinations(stretch, row);
    fill_row(stretch, row, combined);
    // Only rows with combinations write into combined_.
    if (combined) std::fill_n(combined_.begin(), row_size_, 0);
  }
  backtrace(stretch, out);
}

}  // namespace xrun
