#pragma once
// Prefixes with which several packs of a step begin: a group of sequences that does not fit one
// pack even folded, such as many answers to one long prompt.

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/prefix/fold_settings.h"

namespace xrun {

// The first C tokens of the first tree of packs [begin, end), two at least.
struct SharedPrefix {
  size_t begin = 0, end = 0;
  std::vector<int32_t> tokens = {}, position_ids = {};  // [C]
  // Tokens computed by the folded packs: each with its own prefix, and all with one.
  int64_t separate = 0, together = 0;
  int64_t shortest = 0, longest = 0;  // tokens of a segment of these packs

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  // False if the segments have different rotary frequencies, which no one prefix serves.
  bool has_one_class(const FoldSettings& settings) const {
    return !settings.frequency_class ||
           settings.frequency_class(shortest) == settings.frequency_class(longest);
  }
};

// Returns the prefixes that are worth computing once for all of their packs, in the order of the
// packs, without overlap. Each has at least settings.min_run tokens and leaves at least one token
// of every pack to compute. A pack is added while that saves more tokens than the shorter prefix
// loses. kAuto asks for settings.min_ratio between the tokens computed without and with it.
std::vector<SharedPrefix> shared_prefixes(const std::vector<const PackedBatch*>& packs,
                                          const FoldSettings& settings);

}  // namespace xrun
