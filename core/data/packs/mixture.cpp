// Row i is in stage g, block b, at position p. Within a block the order is a bijection of
// its slots; slots [begin[d], begin[d + 1]) belong to source d. Without shuffle the j-th of n slots
// of a source is placed at (j + 1/2) / n. The order decides only the source: its j-th position in
// block b is draw base[d] + b * count_d + j, so that a source's draws are consecutive and a small
// source starts again only after all its rows. The last stage has no end and no shorter block.

#include "core/data/packs/mixture.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "core/data/packs/shuffle.h"

namespace xrun {

namespace {

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

// Returns the first slot of each source in a block of `rows`, and rows at the end.
std::vector<int64_t> share_block(const std::vector<double>& weights, int64_t rows) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> begin(weights.size() + 1, 0);
  std::vector<std::pair<double, size_t>> remainders;  // negated, so that they sort as wanted
  int64_t left = rows;
  for (size_t d = 0; d < weights.size(); ++d) {
    // Largest remainder: the floor of each exact share, then one more each by falling remainder.
    const double exact = weights[d] / total * static_cast<double>(rows);
    const int64_t count = static_cast<int64_t>(std::floor(exact));
    begin[d + 1] = count;
    left -= count;
    // A source of weight 0 must not get a row by rounding.
    if (weights[d] > 0) remainders.emplace_back(std::floor(exact) - exact, d);
  }
  // Equal remainders go to the lower index. Rounding may leave a row more than there are
  // remainders.
  std::sort(remainders.begin(), remainders.end());
  for (size_t i = 0; left > 0; ++i, --left) ++begin[remainders[i % remainders.size()].second + 1];
  // From counts to first slots.
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  return begin;
}

int64_t count_of(const std::vector<int64_t>& begin, size_t source) {
  return begin[source + 1] - begin[source];
}

// The source at each position of a block, the rows of each source evenly spaced; ties go to the
// lower index.
std::vector<int32_t> interleaved(const std::vector<int64_t>& begin) {
  struct Slot {
    int64_t halves;  // 2j + 1, of 2n
    int64_t count;   // n
    int32_t source;
  };
  std::vector<Slot> slots;
  for (size_t d = 0; d + 1 < begin.size(); ++d) {
    const int64_t count = count_of(begin, d);
    for (int64_t j = 0; j < count; ++j) {
      slots.push_back({2 * j + 1, count, static_cast<int32_t>(d)});
    }
  }
  // (2j + 1) / 2n compared in integers: rounded quotients would decide ties.
  std::stable_sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
    return a.halves * b.count < b.halves * a.count;
  });
  std::vector<int32_t> sources;
  for (const Slot& slot : slots) sources.push_back(slot.source);
  return sources;
}

std::vector<int32_t> shuffled(const std::vector<int64_t>& begin, uint64_t seed, int64_t number) {
  // The block's number takes the position of an epoch.
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

}  // namespace

void require_weight(size_t source, double weight) {
  XRUN_CHECK(std::isfinite(weight) && weight >= 0,
             "data[{}].weight is {}, wanted a finite number >= 0", source + 1, weight);
}

void require_stages(const std::vector<MixtureStage>& stages, size_t sources) {
  for (size_t s = 0; s < stages.size(); ++s) {
    const MixtureStage& stage = stages[s];
    const std::string name = fmt::format("mixture.stages[{}]", s + 1);
    if (s == 0) {
      XRUN_CHECK(stage.start == 0, "{}.start is {}, the first stage starts at step 0", name,
                 stage.start);
    } else {
      XRUN_CHECK(stage.start > stages[s - 1].start,
                 "{}.start is {}, wanted a step after {}, where the stage before it starts", name,
                 stage.start, stages[s - 1].start);
    }
    XRUN_CHECK(stage.weights.size() == sources, "{}.weights has {} numbers, data has {} sources",
               name, stage.weights.size(), sources);
    double total = 0;
    for (size_t d = 0; d < sources; ++d) {
      XRUN_CHECK(std::isfinite(stage.weights[d]) && stage.weights[d] >= 0,
                 "{}.weights[{}] is {}, wanted a finite number >= 0", name, d + 1,
                 stage.weights[d]);
      total += stage.weights[d];
    }
    XRUN_CHECK(total > 0 && std::isfinite(total),
               "{}.weights add up to {}, wanted a finite sum above 0", name, total);
  }
}

Mixture::Mixture(const std::vector<double>& weights, uint64_t seed, bool shuffle, int64_t block)
    : block_(block), seed_(seed), shuffle_(shuffle) {
  XRUN_CHECK(block > 0, "a mixture's block has {} rows, wanted at least 1", block);
  double total = 0;
  for (size_t d = 0; d < weights.size(); ++d) {
    require_weight(d, weights[d]);
    total += weights[d];
  }
  XRUN_CHECK(total > 0, "no source of data has a weight above 0, so none is ever drawn");
  XRUN_CHECK(std::isfinite(total), "the weights of data add up to infinity");
  const std::vector<int64_t> begin = share_block(weights, block);
  for (size_t d = 0; d < weights.size(); ++d) {
    // A weight that can never be drawn is probably a slip of the unit (percent against shares).
    XRUN_CHECK(weights[d] == 0 || count_of(begin, d) > 0,
               "data[{}].weight is {} of {}: less than one row in {}, so it is never drawn; raise "
               "it, or set it to 0",
               d + 1, weights[d], total, block);
  }
  // One stage without an end.
  grids_.push_back({0, kEndless, 0, begin, {}, std::vector<int64_t>(weights.size(), 0)});
}

Mixture::Mixture(const std::vector<MixtureStage>& stages, int64_t step_rows, uint64_t seed,
                 bool shuffle, int64_t block)
    : block_(block), seed_(seed), shuffle_(shuffle) {
  XRUN_CHECK(!stages.empty(), "a mixture has no stage");
  XRUN_CHECK(block > 0, "a mixture's block has {} rows, wanted at least 1", block);
  XRUN_CHECK(step_rows > 0, "a step of a mixture has {} rows, wanted at least 1", step_rows);
  const size_t sources = stages[0].weights.size();
  require_stages(stages, sources);
  Grid grid;
  grid.base.assign(sources, 0);
  for (size_t s = 0; s < stages.size(); ++s) {
    const MixtureStage& stage = stages[s];
    const bool last = s + 1 == stages.size();
    XRUN_CHECK(last || stages[s + 1].start <= (int64_t{1} << 62) / step_rows,
               "mixture.stages[{}].start is {}, beyond 2^62 rows", s + 2, stages[s + 1].start);
    // Rows of the stage: whole blocks, then one shorter block for the rest.
    const int64_t rows = last ? kEndless : (stages[s + 1].start - stage.start) * step_rows;
    const int64_t rest = last ? 0 : rows % block;
    grid.whole = last ? kEndless : rows / block;
    grid.begin = share_block(stage.weights, block);
    grid.rest_begin = share_block(stage.weights, rest);
    for (size_t d = 0; d < sources; ++d) {
      const int64_t count = count_of(grid.whole > 0 ? grid.begin : grid.rest_begin, d);
      XRUN_CHECK(stage.weights[d] == 0 || count > 0,
                 "mixture.stages[{}].weights[{}] is {}: less than one row in {}, so it is never "
                 "drawn; raise it, or set it to 0",
                 s + 1, d + 1, stage.weights[d], grid.whole > 0 ? block : rest);
    }
    grids_.push_back(grid);
    if (last) break;
    for (size_t d = 0; d < sources; ++d) {
      // A source continues in the next stage where this one stops.
      grid.base[d] += grid.whole * count_of(grid.begin, d) + count_of(grid.rest_begin, d);
    }
    // Numbers of blocks count through all stages, so no two blocks have the same order.
    grid.first_block += grid.whole + (rest > 0);
    grid.start += rows;
  }
}

Mixture::Block Mixture::block_of(const Grid& grid, int64_t block) const {
  return {grid.first_block + block, block < grid.whole ? &grid.begin : &grid.rest_begin};
}

std::shared_ptr<const Mixture::BlockDraws> Mixture::draws_in(const Block& block) const {
  // Neighbouring rows ask for the same block. Threads may replace it: it is a cache, not a state.
  std::shared_ptr<const BlockDraws> last = std::atomic_load(&last_);
  if (last && last->number == block.number) return last;
  auto known = std::make_shared<BlockDraws>();
  known->number = block.number;
  const std::vector<int64_t>& begin = *block.begin;
  std::vector<int64_t> drawn(begin.size() - 1, 0);
  for (const int32_t source :
       shuffle_ ? shuffled(begin, seed_, block.number) : interleaved(begin)) {
    // The number of the draw counts from the block's first, so that blocks can be cached.
    known->draws.push_back({source, drawn[static_cast<size_t>(source)]++});
  }
  std::atomic_store(&last_, std::shared_ptr<const BlockDraws>(known));
  return known;
}

Mixture::Draw Mixture::operator()(int64_t index) const {
  // The last stage that starts at or before the index.
  const auto later = std::upper_bound(grids_.begin(), grids_.end(), index,
                                      [](int64_t i, const Grid& grid) { return i < grid.start; });
  const Grid& grid = *(later - 1);
  const int64_t number = (index - grid.start) / block_;
  const auto known = draws_in(block_of(grid, number));
  Draw draw = known->draws[static_cast<size_t>((index - grid.start) % block_)];
  const size_t source = static_cast<size_t>(draw.source);
  // Draws of the source before the stage, then those of the stage's earlier blocks, which all have
  // the same count.
  draw.draw += grid.base[source] + number * count_of(grid.begin, source);
  return draw;
}

std::optional<int64_t> Mixture::draws_of(int32_t source) const {
  const Grid& last = grids_.back();
  const size_t d = static_cast<size_t>(source);
  // The source has a share in the last stage, which never ends.
  if (count_of(last.begin, d) > 0) return std::nullopt;
  return last.base.at(d);
}

std::optional<int64_t> Mixture::length_for(int32_t source, int64_t draws) const {
  if (draws <= 0) return 0;
  const size_t d = static_cast<size_t>(source);
  if (const std::optional<int64_t> all = draws_of(source); all && *all < draws) return std::nullopt;
  size_t g = grids_.size() - 1;
  // The last stage that begins before the wanted draw; base ascends.
  while (grids_[g].base.at(d) >= draws) --g;
  const Grid& grid = grids_[g];
  const int64_t count = count_of(grid.begin, d);
  const int64_t here = draws - grid.base[d];  // wanted of this stage, at least 1
  int64_t number = grid.whole;
  // A stage may draw none of this source in whole blocks and some in its rest.
  if (count > 0) number = std::min(number, (here - 1) / count);
  const Block block = block_of(grid, number);
  const int64_t wanted = here - number * count;
  const auto known = draws_in(block);
  for (size_t slot = 0; slot < known->draws.size(); ++slot) {
    const Draw& draw = known->draws[slot];
    if (draw.source == source && draw.draw == wanted - 1) {
      return grid.start + number * block_ + static_cast<int64_t>(slot) + 1;
    }
  }
  throw Error("a mixture's block is shorter than its counts");
}

}  // namespace xrun
