// Within block b the order is a bijection of its slots; slots [begin_[d], begin_[d + 1]) belong to
// source d, so its j-th draw in block b is draw b * count_d + j of the source.

#include "core/data/mixture.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/data/shuffle.h"

namespace xrun {

void require_weight(size_t source, double weight) {
  XRUN_CHECK(std::isfinite(weight) && weight >= 0,
             "data[{}].weight is {}, wanted a finite number >= 0", source + 1, weight);
}

Mixture::Mixture(const std::vector<double>& weights, uint64_t seed, bool shuffle, int64_t block)
    : block_(block), seed_(seed), shuffle_(shuffle) {
  double total = 0;
  for (size_t d = 0; d < weights.size(); ++d) {
    require_weight(d, weights[d]);
    total += weights[d];
  }
  XRUN_CHECK(total > 0, "no source of data has a weight above 0, so none is ever drawn");
  std::vector<int64_t> counts(weights.size());
  int64_t rest = block;
  for (size_t d = 0; d < weights.size(); ++d) {
    counts[d] = static_cast<int64_t>(std::floor(weights[d] / total * static_cast<double>(block)));
    rest -= counts[d];
  }
  counts[static_cast<size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin())] +=
      rest;
  begin_.push_back(0);
  for (size_t d = 0; d < weights.size(); ++d) {
    XRUN_CHECK(weights[d] == 0 || counts[d] > 0,
               "data[{}].weight is {} of {}: less than one row in {}, so it is never drawn; raise "
               "it, or set it to 0",
               d + 1, weights[d], total, block);
    begin_.push_back(begin_.back() + counts[d]);
  }
}

int64_t Mixture::slot(int64_t block, int64_t place) const {
  if (!shuffle_) return place;
  const Shuffle order(static_cast<uint64_t>(block_), seed_, static_cast<uint64_t>(block),
                      kShuffleOfBlocks);
  return static_cast<int64_t>(order(static_cast<uint64_t>(place)));
}

Mixture::Draw Mixture::operator()(int64_t index) const {
  const int64_t block = index / block_;
  const int64_t at = slot(block, index % block_);
  const auto next = std::upper_bound(begin_.begin(), begin_.end(), at);
  const size_t source = static_cast<size_t>(next - begin_.begin()) - 1;
  const int64_t count = begin_[source + 1] - begin_[source];
  return {static_cast<int32_t>(source), block * count + at - begin_[source]};
}

int64_t Mixture::length_for(int32_t source, int64_t draws) const {
  const size_t d = static_cast<size_t>(source);
  const int64_t count = begin_.at(d + 1) - begin_.at(d);
  if (draws <= 0) return 0;
  XRUN_CHECK(count > 0, "data[{}] has weight 0 and is never drawn", source + 1);
  // The order inside a block is shuffled, so the last of the wanted draws may stand anywhere in it.
  const int64_t block = (draws - 1) / count;
  const int64_t wanted = draws - block * count;  // of this block, at least 1
  for (int64_t place = block_ - 1; place >= 0; --place) {
    const int64_t draw = slot(block, place) - begin_[d];
    if (draw >= 0 && draw < wanted) return block * block_ + place + 1;
  }
  throw Error("a mixture's block is shorter than its counts");
}

}  // namespace xrun
