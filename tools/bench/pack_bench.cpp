// Times packing, after checking that every sequence is in one pack within the capacity.
//   pack_bench [SEQUENCES] [CAPACITY] [RUNS] [LENGTHS_FILE]
// Lengths are lognormal, as those of conversations are (median 400, sigma 0.9), cut to the
// capacity; they are written to LENGTHS_FILE, one per line, for tools/bench/pack_peer.py.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/data/packs/pack.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

std::vector<int64_t> lognormal_lengths(uint64_t count, int64_t capacity) {
  std::vector<int64_t> lengths;
  for (uint64_t i = 0; i < count; ++i) {
    // Box and Muller (1958); 1 - u, because the logarithm of 0 is infinite.
    const double radius = std::sqrt(-2 * std::log(1 - philox_unit(1, 95, i, 0)));
    const double normal = radius * std::cos(2 * M_PI * philox_unit(1, 95, i, 1));
    const double length = std::exp(std::log(400.0) + 0.9 * normal);
    lengths.push_back(std::clamp<int64_t>(static_cast<int64_t>(length), 1, capacity));
  }
  return lengths;
}

void check_once_each(const Lists& packs, size_t count) {
  std::vector<int> seen(count, 0);
  for (const std::vector<int64_t>& pack : packs) {
    for (const int64_t item : pack) ++seen.at(static_cast<size_t>(item));
  }
  XRUN_CHECK(seen == std::vector<int>(count, 1), "the sequences are not listed once each");
}

// Returns the share of the packs' area that holds tokens.
double checked_fill(const Lists& packs, const std::vector<int64_t>& lengths, int64_t capacity) {
  check_once_each(packs, lengths.size());
  int64_t tokens = 0;
  for (const std::vector<int64_t>& pack : packs) {
    int64_t total = 0;
    for (const int64_t item : pack) total += lengths[static_cast<size_t>(item)];
    XRUN_CHECK(total <= capacity, "a pack has {} tokens, the capacity is {}", total, capacity);
    tokens += total;
  }
  return static_cast<double>(tokens) / static_cast<double>(capacity) /
         static_cast<double>(packs.size());
}

void bench(uint64_t count, int64_t capacity, int runs, const char* file) {
  const std::vector<int64_t> lengths = lognormal_lengths(count, capacity);
  if (file != nullptr) {
    std::ofstream out(file);
    for (const int64_t length : lengths) out << length << '\n';
    XRUN_CHECK(bool(out.flush()), "{}: cannot be written", file);
  }
  const Lists packs = best_fit_decreasing(lengths, capacity);
  const double fill = checked_fill(packs, lengths, capacity);
  const Pairs pairs = interleave(
      runs, [&] { best_fit_decreasing(lengths, capacity); },
      [&] {
        std::vector<int64_t> sorted = lengths;
        std::sort(sorted.begin(), sorted.end());
      });
  std::vector<double> rates;
  for (const double ms : pairs.a_ms) rates.push_back(static_cast<double>(count) / ms / 1e3);
  print_note("{} sequences into {} packs of {}, {:.3f} % full\n", count, packs.size(), capacity,
             100 * fill);
  print_figure({"pack", rates, "M sequences/s", pairs.ratio, "times std::sort of the lengths"});
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  try {
    const auto number = [&](int i, long otherwise) {
      return argc > i ? std::strtol(argv[i], nullptr, 10) : otherwise;
    };
    xrun::bench(static_cast<uint64_t>(number(1, 200000)), number(2, 8192),
                static_cast<int>(std::max(1l, number(3, 21))), argc > 4 ? argv[4] : nullptr);
  } catch (const std::exception& error) {
    fmt::print(stderr, "pack_bench: {}\n", error.what());
    return 1;
  }
}
