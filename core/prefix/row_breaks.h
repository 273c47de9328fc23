#pragma once
// Finds rows that look alike but share no prefix, or only a short one: where their common prefix
// breaks, and why.

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/packs/prefix_trie.h"
#include "core/data/rows/row.h"
#include "core/prefix/folded_pack.h"

namespace xrun {

// The reasons for which two rows that look alike share less than they could.
enum class BreakCause {
  kTemplate,     // both begin with equal messages, but the template renders these differently
  kMerged,       // a token joins the end of the equal messages with the text after them
  kText,         // a few tokens of their prompts differ; then at least min_run tokens are equal
  kFrequencies,  // they share at least min_run tokens, but RoPE rotates them differently
  kShort,        // they share at least half of the shorter row, but fewer than min_run tokens
};
const char* break_cause_name(BreakCause cause);  // "template", "merged", "text", ...

// A row as the tokens of its segment.
struct ComparedRow {
  TokenList tokens;
  std::vector<uint8_t> trained;             // one per token
  int64_t frequency_class = 0;              // FoldSettings::frequency_class of its length
  const RowTrace::Stream* trace = nullptr;  // null: it has no template, or was not rendered again
};

struct RowBreak {
  BreakCause cause = BreakCause::kShort;
  size_t a = 0, b = 0;  // indices of the rows, a < b
  PrefixBreak at = {};
  // kText: the tokens of each row that differ, and the tokens after them that are equal again.
  int64_t differing_a = 0, differing_b = 0, equal_after = 0;
  // kTemplate, kMerged: the number of equal messages that both rows begin with.
  int64_t equal_messages = 0;
};

// Returns the breaks among rows, at most one for each row b, in the order of b. A row without one
// is unrelated to the others or shares all that it can.
//   min_run  the fewest tokens that rows share (FoldSettings::min_run)
std::vector<RowBreak> find_row_breaks(std::span<const ComparedRow> rows, int64_t min_run);

}  // namespace xrun
