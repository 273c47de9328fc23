#pragma once
// Prefixes that several packs of a step share, since their sequences do not fit one pack even
// folded: many answers to one long prompt, for example.

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/prefix/fold_settings.h"

namespace xrun {

// The first C tokens of each of packs [begin, end), at least two packs.
struct SharedPrefix {
  size_t begin = 0, end = 0;
  std::vector<int32_t> tokens = {}, position_ids = {};  // [C]
  // Tokens that the folded packs compute: with a prefix for each pack, and with one for all.
  int64_t separate = 0, together = 0;
  int64_t shortest = 0, longest = 0;  // tokens of a segment of these packs

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  // Returns false if the segments differ in their rotary frequencies, so that one prefix cannot
  // serve them all.
  bool has_one_class(const FoldSettings& settings) const {
    return !settings.frequency_class ||
           settings.frequency_class(shortest) == settings.frequency_class(longest);
  }
};

// Returns the prefixes that are worth computing once for all of their packs, in the order of the
// packs, without overlap. Each has at least settings.min_run tokens and leaves at least one token
// of every pack to compute. The next pack joins if it saves more tokens than the prefix loses by
// becoming shorter. Under kAuto the tokens computed without the prefix must be at least
// settings.min_ratio times those computed with it, where a third of its tokens counts again for the
// backward.
std::vector<SharedPrefix> shared_prefixes(const std::vector<const PackedBatch*>& packs,
                                          const FoldSettings& settings);

}  // namespace xrun
