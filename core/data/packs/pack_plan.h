#pragma once
// Packs the units of a step by the number of computed tokens: a prefix that several segments of a
// pack share counts once.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/config/config_field.h"
#include "core/data/packs/prefix_trie.h"

namespace xrun {

struct PackLimits {
  PackLimits(int64_t tokens) : max_tokens(tokens) {}  // implicit: only a limit

  int64_t max_tokens;          // of a pack; with fold only computed tokens count
  bool fold = false;           // shared prefixes count once
  int64_t min_run = kFoldMin;  // tokens of the shortest shared run (prefix_trie)
  // Returns the frequency class of RoPE for a length; only segments of one class share a prefix.
  // Without it all lengths have one class.
  std::function<int64_t(int64_t length)> frequency_class = {};
};

// The token lists of a unit's segments; a pair has two.
using UnitTokens = std::vector<TokenList>;

// Returns the number of tokens that a pack of these units computes.
int64_t folded_tokens(std::span<const UnitTokens> units, const PackLimits& limits);

// Returns packs of unit indices that compute at most max_tokens each; every unit is in one pack.
// Units that share a prefix form a cluster. A cluster that fits is one item of best-fit-decreasing;
// any other is sorted by its tokens and cut where neighbours share least. If placing units one by
// one needs fewer packs, or as many with fewer tokens, that plan is returned.
// Units ascend within a pack. Packs ascend by their first unit, except that those that begin with
// the same divided cluster follow each other. Units without shared prefixes get the packs of
// best_fit_decreasing. A pure function. Throws Error that names a unit that does not fit alone.
std::vector<std::vector<int64_t>> plan_folded_packs(std::span<const UnitTokens> units,
                                                    const PackLimits& limits);

}  // namespace xrun
