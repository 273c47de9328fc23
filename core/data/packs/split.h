#pragma once
// Which rows are held out for validation.

#include <cstdint>
#include <span>
#include <vector>

namespace xrun {

// Returns how many of n rows a fraction holds out: int(n * fraction), at least 1, at most n - 1;
// 0 if n <= 1 or fraction <= 0. Throws Error unless 0 <= fraction < 1.
int64_t held_out_count(int64_t n, double fraction);

// Returns a flag per row, 1 where it is held out, so that rows of one prompt stay together. Prompts
// are taken in the order of a hash until held_out_count rows are reached, leaving out one that
// would exceed it; if all do, the smallest is taken. At least one prompt is left. A pure function
// of the hashes: in another order of rows the same prompts are held out. O(n log n) time, 17 bytes
// a row. Throws Error if the rows (two or more) share one prompt and the fraction is not 0.
std::vector<uint8_t> hold_out_prompts(std::span<const uint64_t> prompt_hash, double fraction);

}  // namespace xrun
