// Slots and positions are compared as integers, since rounded quotients would decide ties.

#include "core/data/packs/mixture_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/data/packs/shuffle.h"

namespace xrun {

std::vector<int64_t> share_block(const std::vector<double>& weights, int64_t rows) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> begin(weights.size() + 1, 0);
  std::vector<std::pair<double, size_t>> remainders;  // negated, so that they sort as wanted
  int64_t left = rows;
  for (size_t d = 0; d < weights.size(); ++d) {
    // Each source gets the floor of its exact share, then those of the largest remainders one more.
    const double exact = weights[d] / total * static_cast<double>(rows);
    const int64_t count = static_cast<int64_t>(std::floor(exact));
    begin[d + 1] = count;
    left -= count;
    // A source of weight 0 must not get a row by rounding.
    if (weights[d] > 0) remainders.emplace_back(std::floor(exact) - exact, d);
  }
  // Equal remainders go to the lower index. By rounding, more rows than remainders may be left.
  std::sort(remainders.begin(), remainders.end());
  for (size_t i = 0; left > 0; ++i, --left) ++begin[remainders[i % remainders.size()].second + 1];
  // From counts to first slots.
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  return begin;
}

// Draw j of a source with n slots goes to (2j + 1) / 2n of the block: evenly spread, no randomness.
std::vector<int32_t> interleaved_block(const std::vector<int64_t>& begin) {
  struct SourceTurn {
    int64_t halves;  // 2j + 1, of 2n
    int64_t count;   // n
    int32_t source;
  };
  std::vector<SourceTurn> slots;
  for (size_t d = 0; d + 1 < begin.size(); ++d) {
    const int64_t count = slots_of(begin, d);
    for (int64_t j = 0; j < count; ++j) {
      slots.push_back({2 * j + 1, count, static_cast<int32_t>(d)});
    }
  }
  // stable_sort keeps the lower source first among equal fractions.
  std::stable_sort(slots.begin(), slots.end(), [](const SourceTurn& a, const SourceTurn& b) {
    return a.halves * b.count < b.halves * a.count;
  });
  std::vector<int32_t> sources;
  for (const SourceTurn& slot : slots) sources.push_back(slot.source);
  return sources;
}

std::vector<int32_t> shuffled_block(const std::vector<int64_t>& begin, uint64_t seed,
                                    int64_t number) {
  // The number of the block serves as the epoch.
  const Shuffle order(static_cast<uint64_t>(begin.back()), seed, static_cast<uint64_t>(number),
                      kShuffleOfBlocks);
  std::vector<int32_t> sources;
  for (int64_t i = 0; i < begin.back(); ++i) {
    const auto slot = static_cast<int64_t>(order(static_cast<uint64_t>(i)));
    const auto next = std::upper_bound(begin.begin(), begin.end(), slot);
    sources.push_back(static_cast<int32_t>(next - begin.begin()) - 1);
  }
  return sources;
}

namespace {

constexpr double kMostWeight = 1 << 20;  // of a round robin's period

// Returns the smallest whole numbers in the ratio of the weights, as nmoe does: at the first scale
// up to 1,000 at which all are whole, else in parts per million.
std::vector<int64_t> whole_weights(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> whole(weights.size(), 0);
  const auto scaled = [&](double scale, bool exact) {
    double sum = 0;
    for (size_t d = 0; d < weights.size(); ++d) {
      const double value = weights[d] * scale, rounded = std::nearbyint(value);
      // The tolerance is relative, since weights may have any size.
      if (exact && std::abs(value - rounded) > 1e-9 * scale * std::max(weights[d], 1.0)) {
        return false;
      }
      whole[d] = weights[d] > 0 ? std::max<int64_t>(1, static_cast<int64_t>(rounded)) : 0;
      sum += static_cast<double>(whole[d]);
      if (exact && (sum > kMostWeight * 1000 || (weights[d] > 0 && rounded < 1))) return false;
    }
    return true;
  };
  // Dividing by the common divisor keeps the period short.
  const auto reduce = [&] {
    int64_t divisor = 0;
    for (const int64_t weight : whole) divisor = std::gcd(divisor, weight);
    for (int64_t& weight : whole) weight /= divisor;
    return static_cast<double>(std::accumulate(whole.begin(), whole.end(), int64_t{0}));
  };
  // Weights such as 0.7 and 0.3 are whole at a small scale; others are rounded to millionths.
  for (int scale = 1; scale <= 1000; ++scale) {
    if (scaled(scale, /*exact=*/true) && reduce() <= kMostWeight) return whole;
  }
  scaled(1e6 / total, /*exact=*/false);
  reduce();
  return whole;
}

}  // namespace

std::vector<int32_t> round_robin_block(const std::vector<double>& shares) {
  const std::vector<int64_t> weights = whole_weights(shares);
  const int64_t total = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  std::vector<int64_t> credit(weights.size(), 0);
  std::vector<int32_t> sources;
  for (int64_t i = 0; i < total; ++i) {
    for (size_t d = 0; d < weights.size(); ++d) credit[d] += weights[d];
    const auto most = std::max_element(credit.begin(), credit.end());
    *most -= total;
    sources.push_back(static_cast<int32_t>(most - credit.begin()));
  }
  return sources;
}

std::vector<int64_t> first_slots(std::span<const int32_t> drawn, size_t sources) {
  std::vector<int64_t> begin(sources + 1, 0);
  for (const int32_t source : drawn) ++begin[static_cast<size_t>(source) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  return begin;
}

}  // namespace xrun
