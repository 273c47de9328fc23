#pragma once
// A weighted mixture of sources: which source gives the i-th row of a stream, and which of its
// rows.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/data/packs/shuffle.h"

namespace xrun {

// From a step on, until the next stage, sources are drawn by these weights.
struct MixtureStage {
  int64_t start = 0;            // the first step
  std::vector<double> weights;  // one a source; shares, so their sum does not matter
};

// Throws Error that names the source (from 0) unless its weight is finite and not negative.
void require_weight(size_t source, double weight);

// Throws Error that names the stage unless the first one starts at step 0, each later one after the
// one before it, and each has a finite weight >= 0 for every source.
void require_stages(const std::vector<MixtureStage>& stages, size_t sources);

// Draws come in blocks; each block holds a fixed number of draws of every source, in an order that
// (seed, block) decides. A stage begins with a block of its own and its last one is as short as the
// stage needs, so no draw of a source is left out or repeated. A pure function of the index; its
// state is O(stages x sources). Thread-safe.
class Mixture {
 public:
  struct Draw {
    int32_t source = 0;
    int64_t draw = 0;  // the draw-th row that this source gives, from 0, without end
  };
  static constexpr int64_t kBlock = 2048;

  // A source of weight 0 is never drawn. A block is shared out by largest remainder, ties to the
  // lower index. Without shuffle each source's rows stand at equal distances in a block.
  // Throws Error that names the index of a source whose weight is not finite, negative, or too
  // small to be drawn once a block; and if no weight is above 0.
  Mixture(const std::vector<double>& weights, uint64_t seed, bool shuffle, int64_t block = kBlock);
  // In stages, with `step_rows` rows a step. Throws Error as require_stages does, and that names
  // stage and source of a weight above 0 too small to be drawn once a block (once a stage that is
  // shorter than a block).
  Mixture(const std::vector<MixtureStage>& stages, int64_t step_rows, uint64_t seed, bool shuffle,
          int64_t block = kBlock);

  Draw operator()(int64_t index) const;  // requires index >= 0
  // Returns the length of the shortest stream that holds the source's draws 0 to draws - 1; no
  // value if no stream does, since the source's weight ends at 0.
  std::optional<int64_t> length_for(int32_t source, int64_t draws) const;
  // Returns how many rows the source gives in all; no value: without end.
  std::optional<int64_t> draws_of(int32_t source) const;

 private:
  // A stage's blocks. begin[d + 1] - begin[d] of a block's places belong to source d.
  struct Grid {
    int64_t start = 0;                // first row of the stream
    int64_t whole = 0;                // whole blocks
    int64_t first_block = 0;          // blocks before the stage: they name the order inside a block
    std::vector<int64_t> begin;       // of a whole block
    std::vector<int64_t> rest_begin;  // of the shorter one behind them
    std::vector<int64_t> base;        // draws of each source before the stage
  };
  struct Block {
    int64_t number = 0;  // over all stages
    const std::vector<int64_t>* begin = nullptr;
  };
  Block block_of(const Grid& grid, int64_t block) const;
  // What stands at each place of a block; draws count from the block's first.
  struct Places {
    int64_t number = 0;
    std::vector<Draw> draws;
  };
  std::shared_ptr<const Places> places_of(const Block& block) const;

  std::vector<Grid> grids_;
  int64_t block_;
  uint64_t seed_;
  bool shuffle_;
  mutable std::shared_ptr<const Places> last_;  // the block last asked for; read and set atomically
};

}  // namespace xrun
