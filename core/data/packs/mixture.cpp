// Row i is in grid g, block b, at position p. The order within a block is a bijection of its slots
// (mixture_order.h) and decides only the source: the j-th position of source d in block b is draw
// base[d] + b * count_d + j. So a source's draws are consecutive, and a small source starts again
// only after all its rows. The last stage has no end and no shorter block, unless every source has
// a quota. A grid ends where one of its sources meets its quota, inside a block; the rest of that
// block is never requested.

#include "core/data/packs/mixture.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/data/packs/mixture_order.h"

namespace xrun {

namespace {

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

}  // namespace

void require_weight(size_t source, double weight) {
  if (!std::isfinite(weight) || weight < 0) {
    throw UsageError(
        fmt::format("data[{}].weight is {}, wanted a finite number >= 0", source + 1, weight));
  }
}

// Messages number stages and sources from 1, as Lua does.
void require_stages(const std::vector<MixtureStage>& stages, size_t sources) {
  for (size_t s = 0; s < stages.size(); ++s) {
    const MixtureStage& stage = stages[s];
    const std::string name = fmt::format("mixture.stages[{}]", s + 1);
    if (s == 0) {
      if (stage.start != 0) {
        throw UsageError(fmt::format("{}.start is {}, wanted 0: the first stage starts at step 0",
                                     name, stage.start));
      }
    } else {
      if (stage.start <= stages[s - 1].start) {
        throw UsageError(
            fmt::format("{}.start is {}, wanted a step after {}, the start of the previous stage",
                        name, stage.start, stages[s - 1].start));
      }
    }
    if (stage.weights.size() != sources) {
      throw UsageError(fmt::format("{}.weights has {}, data has {}; give one weight per source",
                                   name, counted(std::ssize(stage.weights), "number"),
                                   counted(static_cast<int64_t>(sources), "source")));
    }
    double total = 0;
    for (size_t d = 0; d < sources; ++d) {
      if (!std::isfinite(stage.weights[d]) || stage.weights[d] < 0) {
        throw UsageError(fmt::format("{}.weights[{}] is {}, wanted a finite number >= 0", name,
                                     d + 1, stage.weights[d]));
      }
      total += stage.weights[d];
    }
    if (!(total > 0) || !std::isfinite(total)) {
      throw UsageError(
          fmt::format("{}.weights add up to {}, wanted a finite sum above 0", name, total));
    }
  }
}

Mixture::Mixture(const std::vector<double>& weights, uint64_t seed, bool shuffle, int64_t block) {
  MixturePlan plan{.stages = {{0, weights}}};
  plan.seed = seed;
  plan.shuffle = shuffle;
  plan.block = block;
  build(plan);
}

Mixture::Mixture(const std::vector<MixtureStage>& stages, int64_t step_rows, uint64_t seed,
                 bool shuffle, int64_t block) {
  MixturePlan plan{.stages = stages};
  plan.step_rows = step_rows;
  plan.seed = seed;
  plan.shuffle = shuffle;
  plan.block = block;
  plan.staged = true;
  build(plan);
}

Mixture::Mixture(const MixturePlan& plan) { build(plan); }

namespace {

// Finite weights may still have an infinite sum.
void require_weights(const std::vector<double>& weights) {
  double total = 0;
  for (size_t d = 0; d < weights.size(); ++d) {
    require_weight(d, weights[d]);
    total += weights[d];
  }
  if (!(total > 0)) throw UsageError(kNoWeight);
  if (!std::isfinite(total)) {
    throw UsageError("the weights of data add up to infinity");
  }
}

// A weight too small to be drawn is probably in another unit than the rest (shares, not percent).
void require_draws(const MixturePlan& plan, size_t stage, const std::vector<int64_t>& begin) {
  const std::vector<double>& weights = plan.stages[stage].weights;
  for (size_t d = 0; d < weights.size(); ++d) {
    if (weights[d] == 0 || slots_of(begin, d) > 0) continue;
    const std::string what =
        plan.staged
            ? fmt::format("mixture.stages[{}].weights[{}] is {}", stage + 1, d + 1, weights[d])
            : fmt::format("data[{}].weight is {} of {}", d + 1, weights[d],
                          std::accumulate(weights.begin(), weights.end(), 0.0));
    throw Error(
        fmt::format("{}: less than one row in {}, so it is never drawn; raise it, or set it to 0",
                    what, begin.back()));
  }
}

// The weights of the sources that have not met their quotas.
std::vector<double> weights_left(const MixturePlan& plan, size_t stage,
                                 const std::vector<int64_t>& drawn) {
  std::vector<double> weights = plan.stages[stage].weights;
  for (size_t d = 0; d < plan.quotas.size(); ++d) {
    if (plan.quotas[d] >= 0 && drawn[d] >= plan.quotas[d]) weights[d] = 0;
  }
  return weights;
}

bool is_positive(double weight) { return weight > 0; }

}  // namespace

// A grid is a stretch of constant shares: a stage, or its part until a source meets its quota.
void Mixture::build(const MixturePlan& plan) {
  order_ = plan.order;
  block_ = plan.block;
  seed_ = plan.seed;
  shuffle_ = plan.shuffle;
  XRUN_CHECK(!plan.stages.empty(), "a mixture has no stage");
  XRUN_CHECK(block_ > 0, "a mixture's block has {} rows, wanted at least 1", block_);
  XRUN_CHECK(plan.step_rows > 0, "a step of a mixture has {} rows, wanted at least 1",
             plan.step_rows);
  const size_t sources = plan.stages[0].weights.size();
  if (plan.staged) {
    require_stages(plan.stages, sources);
  } else {
    require_weights(plan.stages[0].weights);
  }
  XRUN_CHECK(plan.quotas.empty() || plan.quotas.size() == sources,
             "a mixture has {} quotas for {} sources", plan.quotas.size(), sources);
  Grid grid;
  grid.base.assign(sources, 0);
  // Each round of the inner loop ends at a quota or at the end of the stage.
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const bool last = s + 1 == plan.stages.size();
    const int64_t start = plan.stages[s].start;
    if (!last && plan.stages[s + 1].start > (int64_t{1} << 62) / plan.step_rows) {
      throw UsageError(fmt::format("mixture.stages[{}].start is {}, beyond 2^62 rows", s + 2,
                                   plan.stages[s + 1].start));
    }
    // Counts rows; a stage starts with a step.
    int64_t left = last ? kEndless : (plan.stages[s + 1].start - start) * plan.step_rows;
    for (bool whole_stage = true; left > 0; whole_stage = false) {
      const std::vector<double> weights = weights_left(plan, s, grid.base);
      if (std::none_of(weights.begin(), weights.end(), is_positive)) {
        XRUN_CHECK(
            last,
            "all sources of mixture.stages[{}] have met their quotas {} rows before the next "
            "stage starts; raise a quota, or start that stage earlier",
            s + 1, left);
        end_ = grid.start;
        grid.whole = 0;
        grid.begin = grid.rest_begin = std::vector<int64_t>(sources + 1, 0);
        grids_.push_back(grid);
        return;
      }
      set_shares(grid, weights, left);
      // A round robin draws every source within one period.
      if (whole_stage && order_ == MixtureOrder::kBlocks) {
        require_draws(plan, s, grid.whole > 0 ? grid.begin : grid.rest_begin);
      }
      grids_.push_back(grid);
      // The first source to meet its quota ends the grid.
      int64_t rows = left;
      for (size_t d = 0; d < plan.quotas.size(); ++d) {
        if (weights[d] == 0 || plan.quotas[d] < 0) continue;
        rows = std::min(rows, rows_until(grid, d, plan.quotas[d] - grid.base[d]).value_or(rows));
      }
      if (rows == kEndless) return;
      add_draws(grids_.back(), rows, grid.base);
      last_.reset();  // a block of the next grid may have the same number
      grid.first_block += rows / grid.block + (rows % grid.block > 0);
      grid.start += rows;
      if (left != kEndless) left -= rows;
    }
  }
}

void Mixture::set_shares(Grid& grid, const std::vector<double>& weights, int64_t rows) const {
  const bool robin = order_ == MixtureOrder::kRoundRobin;
  grid.period = robin ? round_robin_block(weights) : std::vector<int32_t>();
  grid.block = robin ? std::ssize(grid.period) : block_;
  grid.whole = rows == kEndless ? kEndless : rows / grid.block;
  // The shares of the last, shorter block of a stage.
  const int64_t rest = rows == kEndless ? 0 : rows % grid.block;
  if (robin) {
    grid.begin = first_slots(grid.period, weights.size());
    grid.rest_begin =
        first_slots(std::span(grid.period).first(static_cast<size_t>(rest)), weights.size());
  } else {
    grid.begin = share_block(weights, grid.block);
    grid.rest_begin = share_block(weights, rest);
  }
}

Mixture::MixtureBlock Mixture::block_of(const Grid& grid, int64_t block) const {
  return {grid.first_block + block, &grid, block < grid.whole ? &grid.begin : &grid.rest_begin};
}

std::shared_ptr<const Mixture::BlockDraws> Mixture::draws_in(const MixtureBlock& block) const {
  // Neighbouring rows ask for the same block. Threads may replace it, since it is only a cache.
  std::shared_ptr<const BlockDraws> last = std::atomic_load(&last_);
  if (last && last->number == block.number) return last;
  auto known = std::make_shared<BlockDraws>();
  known->number = block.number;
  const std::vector<int64_t>& begin = *block.begin;
  std::vector<int32_t> sources = block.grid->period;
  if (order_ == MixtureOrder::kBlocks) {
    sources = shuffle_ ? shuffled_block(begin, seed_, block.number) : interleaved_block(begin);
  }
  sources.resize(static_cast<size_t>(begin.back()));
  std::vector<int64_t> drawn(begin.size() - 1, 0);
  known->draws.reserve(sources.size());
  for (const int32_t source : sources) {
    known->draws.push_back({source, drawn[static_cast<size_t>(source)]++});
  }
  std::atomic_store(&last_, std::shared_ptr<const BlockDraws>(known));
  return known;
}

Mixture::Draw Mixture::operator()(int64_t index) const {
  // The last grid that starts at or before the index.
  const auto later = std::upper_bound(grids_.begin(), grids_.end(), index,
                                      [](int64_t i, const Grid& grid) { return i < grid.start; });
  const Grid& grid = *(later - 1);
  const int64_t number = (index - grid.start) / grid.block;
  const auto known = draws_in(block_of(grid, number));
  Draw draw = known->draws[static_cast<size_t>((index - grid.start) % grid.block)];
  const size_t source = static_cast<size_t>(draw.source);
  // Draws of the source before the grid, then those of its earlier blocks, which all have
  // the same count.
  draw.draw += grid.base[source] + number * slots_of(grid.begin, source);
  return draw;
}

std::optional<int64_t> Mixture::draws_of(int32_t source) const {
  const Grid& last = grids_.back();
  const size_t d = static_cast<size_t>(source);
  // The source has a share in the last grid, which never ends.
  if (slots_of(last.begin, d) > 0) return std::nullopt;
  return last.base.at(d);
}

std::optional<int64_t> Mixture::length_for(int32_t source, int64_t draws) const {
  if (draws <= 0) return 0;
  const size_t d = static_cast<size_t>(source);
  if (const std::optional<int64_t> all = draws_of(source); all && *all < draws) return std::nullopt;
  size_t g = grids_.size() - 1;
  // The last grid that begins before the wanted draw; base ascends.
  while (grids_[g].base.at(d) >= draws) --g;
  const Grid& grid = grids_[g];
  const std::optional<int64_t> rows = rows_until(grid, d, draws - grid.base[d]);
  XRUN_CHECK(rows, "a mixture's block is shorter than its counts");
  return grid.start + *rows;
}

// All blocks before the wanted one give `count` draws.
std::optional<int64_t> Mixture::rows_until(const Grid& grid, size_t source, int64_t n) const {
  const int64_t count = slots_of(grid.begin, source);
  int64_t number = grid.whole;
  // Whole blocks of a stage may have no draw of this source while its last, shorter block has some.
  if (count > 0) number = std::min(number, (n - 1) / count);
  const int64_t wanted = n - number * count;
  if (number == grid.whole && wanted > slots_of(grid.rest_begin, source)) return std::nullopt;
  const auto known = draws_in(block_of(grid, number));
  for (size_t slot = 0; slot < known->draws.size(); ++slot) {
    const Draw& draw = known->draws[slot];
    if (static_cast<size_t>(draw.source) == source && draw.draw == wanted - 1) {
      return number * grid.block + static_cast<int64_t>(slot) + 1;
    }
  }
  return std::nullopt;
}

void Mixture::add_draws(const Grid& grid, int64_t rows, std::vector<int64_t>& base) const {
  const int64_t whole = rows / grid.block, rest = rows % grid.block;
  for (size_t d = 0; d < base.size(); ++d) base[d] += whole * slots_of(grid.begin, d);
  if (rest == 0) return;
  const auto known = draws_in(block_of(grid, whole));
  for (int64_t i = 0; i < rest; ++i) {
    ++base[static_cast<size_t>(known->draws[static_cast<size_t>(i)].source)];
  }
}

}  // namespace xrun
