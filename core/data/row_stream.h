#pragma once
// The order in which a phase draws the rows of its sources: one stream over all epochs.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/data/data_settings.h"
#include "core/data/mixture.h"

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
    double weight = 1;
  };

  // epochs = 0 is without end, and so is kRestart over several sources; kFirst ends when the first
  // source has given its rows `epochs` times, kAll when every one has. Throws Error as Mixture
  // does.
  RowStream(std::vector<Source> sources, MixtureStop stop, uint64_t seed, bool shuffle,
            int64_t epochs);

  std::optional<int64_t> length() const { return length_; }  // no value: without end
  Place at(int64_t index) const;                             // requires 0 <= index < length

 private:
  std::vector<Source> sources_;
  uint64_t seed_;
  bool shuffle_;
  int32_t only_ = -1;  // the one live source, if there is one alone
  std::optional<Mixture> mixture_;
  std::optional<int64_t> length_;
};

}  // namespace xrun
