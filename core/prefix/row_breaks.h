#pragma once
// Rows that look alike but do not share: where the common prefix of two rows breaks, and why.

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/packs/prefix_trie.h"
#include "core/data/rows/row.h"
#include "core/prefix/folded_pack.h"

namespace xrun {

// Two rows look alike in one of these ways.
enum class BreakCause {
  kTemplate,     // both begin with equal messages, but the template renders these differently
  kMerged,       // a token joins the end of the equal messages with the text after them
  kText,         // a few tokens of their prompts differ; then at least min_run tokens are equal
  kFrequencies,  // they share at least min_run tokens, but RoPE rotates them differently
  kShort,        // they share at least half of the shorter row, but fewer than min_run tokens
};
const char* break_cause_name(BreakCause cause);  // "template", "merged", "text", ...

// One segment.
struct ComparedRow {
  TokenList tokens;
  std::vector<uint8_t> trained;             // one per token
  int64_t frequency_class = 0;              // of FoldSettings::frequency_class
  const RowTrace::Stream* trace = nullptr;  // its rendering; null: unknown, or without a template
};

struct RowBreak {
  BreakCause cause = BreakCause::kShort;
  size_t a = 0, b = 0;  // indices of the rows, a < b
  PrefixBreak at = {};
  int64_t differing_a = 0, differing_b = 0;  // kText: tokens of each until they are equal again
  int64_t equal_after = 0;                   // kText: the number that are equal then
  int64_t equal_messages = 0;                // kTemplate, kMerged: leading messages
};

// Returns the breaks among rows, at most one for each row, in the order of b. Rows without any of
// the causes are unrelated, or share all that they can.
std::vector<RowBreak> find_row_breaks(std::span<const ComparedRow> rows, int64_t min_run);

}  // namespace xrun
