// Rows are sorted by a hash of their prompt, which makes the rows of a prompt adjacent with 16
// bytes per row and no table of prompts. The prompts to take come early in that order, so a first
// attempt sorts only the rows with small hashes.

#include "core/data/packs/split.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/philox.h"

namespace xrun {

namespace {

struct HashedRow {
  uint64_t order;  // a hash of the prompt, the same in every set
  size_t row;
};

// Returns the rows whose prompt's hash is at most `limit`, sorted.
std::vector<HashedRow> sort_by_prompt(std::span<const uint64_t> prompt_hash, uint64_t limit) {
  std::vector<HashedRow> rows;
  for (size_t i = 0; i < prompt_hash.size(); ++i) {
    const uint64_t order = philox_u64(prompt_hash[i], kStreamSplit, 0, 0);
    if (order <= limit) rows.push_back({order, i});
  }
  // The prompt's own hash decides a collision, so that the rows of two prompts never interleave.
  std::sort(rows.begin(), rows.end(), [&](const HashedRow& a, const HashedRow& b) {
    return a.order != b.order ? a.order < b.order : prompt_hash[a.row] < prompt_hash[b.row];
  });
  return rows;
}

// Calls take(begin, end) for the rows of each prompt until it returns false.
void for_each_prompt(std::span<const uint64_t> prompt_hash, const std::vector<HashedRow>& rows,
                     const auto& take) {
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    end = begin + 1;
    while (end < rows.size() && prompt_hash[rows[end].row] == prompt_hash[rows[begin].row]) ++end;
    if (!take(begin, end)) return;
  }
}

}  // namespace

int64_t held_out_count(int64_t n, double fraction) {
  if (!(fraction >= 0 && fraction < 1)) {
    throw UsageError(
        fmt::format("valid.fraction is {}, wanted a number of at least 0 and below 1", fraction));
  }
  if (n <= 1 || fraction <= 0) return 0;
  const int64_t count = static_cast<int64_t>(static_cast<double>(n) * fraction);
  // A fraction above 0 holds out at least one row and trains on at least one.
  return std::clamp<int64_t>(count, 1, n - 1);
}

std::vector<uint8_t> hold_out_prompts(std::span<const uint64_t> prompt_hash, double fraction) {
  const size_t wanted =
      static_cast<size_t>(held_out_count(static_cast<int64_t>(prompt_hash.size()), fraction));
  std::vector<uint8_t> held_out(prompt_hash.size(), 0);
  if (wanted == 0) return held_out;
  const double share = 2 * fraction + 0.001;  // of the hashes; very likely enough
  // First sorts only prompts with a low hash, then all of them if these are too few.
  for (const uint64_t limit :
       {share < 1 ? static_cast<uint64_t>(share * 0x1p64) : 0, ~uint64_t{0}}) {
    const std::vector<HashedRow> rows = sort_by_prompt(prompt_hash, limit);
    size_t held = 0;                                   // rows held out so far
    size_t smallest = 0, fewest = prompt_hash.size();  // first row and size of the smallest prompt
    const auto hold_out = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) held_out[rows[i].row] = 1;
    };
    for_each_prompt(prompt_hash, rows, [&](size_t begin, size_t end) {
      const size_t size = end - begin;
      if (size < fewest) {
        smallest = begin;
        fewest = size;
      }
      // A prompt with too many rows is skipped; a later, smaller one may still fit.
      if (held + size <= wanted) {
        hold_out(begin, end);
        held += size;
      }
      return held < wanted;
    });
    if (held == wanted) break;
    if (limit != ~uint64_t{0}) continue;  // held rows stay held in the longer order
    XRUN_CHECK(fewest < prompt_hash.size(),
               "valid.by = \"prompt\": all {} rows share one prompt, so none can be held out; "
               "use by = \"row\" or valid.data",
               prompt_hash.size());
    // If not even the smallest prompt fits the wanted count, it is held out anyway.
    if (held == 0) hold_out(smallest, smallest + fewest);
  }
  return held_out;
}

int64_t RowSelection::size() const {
  int64_t total = 0;
  for (const SourceRange& range : ranges) total += range.size();
  return total;
}

// Splits each source, so that all keep their shares.
std::pair<RowSelection, RowSelection> RowSelection::split_last(double fraction) const {
  std::pair<RowSelection, RowSelection> sets;
  for (const SourceRange& range : ranges) {
    const int64_t kept = range.size() - held_out_count(range.size(), fraction);
    if (range.listed) {
      // Holds out the last rows, so that appending to a file keeps the training rows.
      const auto border = range.rows.begin() + kept;
      sets.first.ranges.push_back({0, 0, {range.rows.begin(), border}, true});
      sets.second.ranges.push_back({0, 0, {border, range.rows.end()}, true});
    } else {
      sets.first.ranges.push_back({range.begin, range.begin + kept, {}, false});
      sets.second.ranges.push_back({range.begin + kept, range.end, {}, false});
    }
  }
  return sets;
}

std::pair<RowSelection, RowSelection> RowSelection::split_flagged(
    std::span<const uint8_t> held_out) const {
  std::pair<RowSelection, RowSelection> sets;
  size_t i = 0;
  for (const SourceRange& range : ranges) {
    sets.first.ranges.push_back({0, 0, {}, true});
    sets.second.ranges.push_back({0, 0, {}, true});
    for (int64_t k = 0; k < range.size(); ++k, ++i) {
      RowSelection& set = held_out[i] != 0 ? sets.second : sets.first;
      set.ranges.back().rows.push_back(range.at(k));
    }
  }
  return sets;
}

}  // namespace xrun
