#pragma once
// The order in which a phase draws the rows of its sources: one stream over all epochs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/data/rows/data_settings.h"
#include "core/data/packs/mixture.h"
#include "core/data/packs/row_order.h"

namespace xrun {

// A pure function of its arguments and the index; O(1) state in the number of rows. One source is
// plain epochs, each a bijection of its rows; several are a Mixture, each source in epochs of its
// own. Sources of weight 0 or without rows are never drawn. Thread-safe.
class RowStream {
 public:
  struct Place {
    int32_t source = 0;
    int64_t row = 0;  // of that source
  };
  struct Source {
    int64_t rows = 0;
    double weight = 1;  // 0: never drawn, in no stage either
  };
  struct Plan {
    std::vector<Source> sources;
    // kRestart over several sources is without end; kFirst ends when the first source has given its
    // rows `epochs` times, kAll when every one has, and never if the weight of one is 0 by then.
    MixtureStop stop = MixtureStop::kAll;
    std::vector<MixtureStage> stages;  // in place of the weights; empty: the weights hold all along
    int64_t step_rows = 1;             // rows a step: where stages start
    int64_t epochs = 1;                // 0: without end
    uint64_t seed = 0;
    RowOrder order;  // of a source's rows; with kFile sources take turns by their weights
    int64_t mixture_block = Mixture::kBlock;
  };

  // Throws Error as Mixture does, and that names a source without a weight in any stage.
  explicit RowStream(Plan plan);
  RowStream(std::vector<Source> sources, MixtureStop stop, uint64_t seed, bool shuffle,
            int64_t epochs);

  std::optional<int64_t> length() const { return length_; }        // no value: without end
  const std::string& why_endless() const { return why_endless_; }  // "" if it has an end
  Place at(int64_t index) const;                                   // requires 0 <= index < length

 private:
  std::vector<int32_t> live_sources() const;
  void make_mixture(const std::vector<int32_t>& live);
  void find_length(const std::vector<int32_t>& live);
  int64_t rows_of_all_epochs(int32_t source) const;

  Plan plan_;
  int32_t only_ = -1;  // the one live source, if there is one alone
  std::optional<Mixture> mixture_;
  std::optional<int64_t> length_;
  std::string why_endless_;
};

}  // namespace xrun
