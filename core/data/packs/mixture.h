#pragma once
// A weighted mixture of sources: for the i-th row of a stream, its source and its number among the
// rows drawn from that source.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/data/packs/shuffle.h"
#include "core/data/rows/data_settings.h"

namespace xrun {

// The weights of the sources from one step until the next stage.
struct MixtureStage {
  int64_t start = 0;            // the first step
  std::vector<double> weights;  // one per source; only their ratios matter
};

// The message for data of which no row can be drawn.
constexpr const char* kNoWeight =
    "no source of data has a weight above 0, so no row is ever drawn; give at least one of them a "
    "weight above 0";

// Throws UsageError that names the source (from 0) unless its weight is finite and not negative.
void require_weight(size_t source, double weight);

// Throws UsageError that names the stage unless the first starts at step 0, each later one starts
// after the previous one, and each has a finite weight >= 0 for every source, with a sum above 0.
void require_stages(const std::vector<MixtureStage>& stages, size_t sources);

struct MixturePlan {
  static constexpr int64_t kBlock = 2048;

  std::vector<MixtureStage> stages;  // at least one
  bool staged = false;               // messages call the stages mixture.stages
  std::vector<int64_t> quotas = {};  // rows that a source gives in total; -1: no limit; empty: none
  int64_t step_rows = 1;             // rows per step; turns the starts of stages into rows
  uint64_t seed = 0;                 // of the shuffle
  bool shuffle = true;
  MixtureOrder order = MixtureOrder::kBlocks;
  int64_t block = kBlock;  // rows per block of kBlocks
};

// Draws come in blocks. Each block contains a fixed number of draws of every source, in an order
// that (seed, block) decides. A stage begins with a new block, and its last block is as short as
// necessary, so no draw of a source is left out or repeated. Once a source has met its quota, its
// weight is 0 from the next row on, which begins a new block. In a round robin all blocks are
// equal: one period of the order, as long as the sum of the weights as whole numbers without a
// common divisor.
// A pure function of the index, with O((stages + sources) x sources) state and one block in memory.
// Thread-safe.
class Mixture {
 public:
  struct Draw {
    int32_t source = 0;
    int64_t draw = 0;  // number of the row among those of its source, from 0, without end
  };
  static constexpr int64_t kBlock = MixturePlan::kBlock;

  // A source of weight 0 is never drawn. A block is divided by largest remainder, ties to the lower
  // index. Without shuffle each source's rows are spaced evenly in a block. Throws Error if no
  // weight is above 0, and Error that names the source if a weight is negative, not finite, or too
  // small for one draw per block.
  Mixture(const std::vector<double>& weights, uint64_t seed, bool shuffle, int64_t block = kBlock);
  // With stages and `step_rows` rows per step. Throws as require_stages does, and Error that names
  // stage and source if a positive weight is too small for one draw per block (per stage if that is
  // shorter).
  Mixture(const std::vector<MixtureStage>& stages, int64_t step_rows, uint64_t seed, bool shuffle,
          int64_t block = kBlock);
  // Throws as the others do, and Error if all sources of a stage have met their quotas before the
  // next stage starts.
  explicit Mixture(const MixturePlan& plan);

  Draw operator()(int64_t index) const;  // requires 0 <= index, below end() if there is one
  // Returns the number of rows after which all sources have met their quotas; no value if the
  // mixture has no end.
  std::optional<int64_t> end() const { return end_; }
  // Returns the number of rows of the stream up to and including the source's draw draws - 1; no
  // value if it is never made because the source's weight ends at 0.
  std::optional<int64_t> length_for(int32_t source, int64_t draws) const;
  // Returns the total number of rows drawn from the source; no value if there is no end.
  std::optional<int64_t> draws_of(int32_t source) const;

 private:
  // The blocks of a stage, or of the part of a stage in which the same sources are left. Of a block
  // begin[d + 1] - begin[d] slots belong to source d. The next grid may start before the last block
  // of this one ends.
  struct Grid {
    int64_t start = 0;                // first row of the stream
    int64_t block = 1;                // rows of a whole block
    int64_t whole = 0;                // whole blocks
    int64_t first_block = 0;          // number of the first block, which decides its order
    std::vector<int64_t> begin;       // of a whole block
    std::vector<int64_t> rest_begin;  // of the shorter last block
    std::vector<int64_t> base;        // draws of each source before the grid
    std::vector<int32_t> period;      // sources of a block of a round robin; empty: kBlocks
  };
  struct MixtureBlock {
    int64_t number = 0;  // over all grids
    const Grid* grid = nullptr;
    const std::vector<int64_t>* begin = nullptr;
  };
  void build(const MixturePlan& plan);
  // Fills block, whole, begin, rest_begin and period for `rows` rows by these weights.
  void set_shares(Grid& grid, const std::vector<double>& weights, int64_t rows) const;
  MixtureBlock block_of(const Grid& grid, int64_t block) const;
  // The draws of a block in order; Draw::draw counts from the first of the block.
  struct BlockDraws {
    int64_t number = 0;
    std::vector<Draw> draws;
  };
  std::shared_ptr<const BlockDraws> draws_in(const MixtureBlock& block) const;
  // Returns the rows of a grid up to and including the n-th draw of a source in it; no value if it
  // has fewer.
  std::optional<int64_t> rows_until(const Grid& grid, size_t source, int64_t n) const;
  // Adds the draws of each source in the first `rows` rows of a grid to `base`.
  void add_draws(const Grid& grid, int64_t rows, std::vector<int64_t>& base) const;

  std::vector<Grid> grids_;
  std::optional<int64_t> end_;
  MixtureOrder order_ = MixtureOrder::kBlocks;
  int64_t block_ = kBlock;
  uint64_t seed_ = 0;
  bool shuffle_ = true;
  mutable std::shared_ptr<const BlockDraws> last_;  // the block used last; read and set atomically
};

}  // namespace xrun
