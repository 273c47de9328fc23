#pragma once
// The order in which a phase draws rows from its sources: one stream over all epochs.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/packs/mixture.h"
#include "core/data/packs/shuffle.h"
#include "core/data/rows/data_settings.h"

namespace xrun {

// A pure function of its arguments and the index, whose state does not grow with the rows. One
// source is drawn in epochs, each a bijection of its rows; several are drawn by a Mixture, each in
// its own epochs. Sources of weight 0 or without rows are never drawn. Thread-safe.
class RowStream {
 public:
  struct DrawnRow {
    int32_t source = 0;
    int64_t row = 0;  // of that source
  };
  struct StreamSource {
    int64_t rows = 0;
    double weight = 1;  // 0: never drawn, not even in a stage
    // Rows that the source gives in total, over as many epochs as that takes; -1: no quota. If
    // quota_tokens is above 0, the fewest rows that reach that number of tokens, by `tokens`.
    int64_t quota = -1;
    int64_t quota_tokens = 0;
    std::function<int64_t(int64_t row)> tokens = {};
  };
  struct Plan {
    std::vector<StreamSource> sources;
    // The end of a stream of several sources. kRestart: never. kFirst: when the first source has
    // been drawn `epochs` times or has met its quota. kAll: when all have, so never if a stage sets
    // the weight of one to 0 before. Any stream ends when all sources have met their quotas.
    MixtureStop stop = MixtureStop::kAll;
    std::vector<MixtureStage> stages;  // replace the weights; empty: the weights hold throughout
    int64_t step_rows = 1;             // rows per step; turns the starts of stages into rows
    int64_t epochs = 1;                // 0: without end
    uint64_t seed = 0;
    RowOrder order;  // of a source's rows; with kFile sources alternate by their weights
    MixtureOrder mixture_order = MixtureOrder::kBlocks;
    int64_t mixture_block = Mixture::kBlock;
  };

  // Throws Error as Mixture does, and for a source without a weight in any stage.
  explicit RowStream(Plan plan);
  RowStream(std::vector<StreamSource> sources, MixtureStop stop, uint64_t seed, bool shuffle,
            int64_t epochs);

  std::optional<int64_t> length() const { return length_; }  // no value: without end
  // Returns the setting that leaves the stream without an end; "" if it has one.
  const std::string& endless_reason() const { return endless_reason_; }
  DrawnRow at(int64_t index) const;  // requires 0 <= index < length
  // Returns the settings that decide the order apart from rows and seed, which a resume compares:
  // {"order", "stop", "weights", "stages", "quotas"}, quotas in rows; null for a single source
  // without a quota.
  Json mixture_plan() const;

 private:
  // Returns the sources with rows and a weight above 0; others are never drawn.
  std::vector<int32_t> find_active_sources() const;
  void require_weight_in_a_stage(int32_t source) const;
  void find_quotas();
  int64_t rows_with_tokens(int32_t source) const;
  void make_mixture();
  void find_length();
  void find_mixture_length();
  // Returns the rows of a source's quota, or of all its epochs.
  int64_t wanted_rows(int32_t source) const;
  bool has_quota(int32_t source) const;
  bool all_have_quotas() const;

  Plan plan_;
  std::vector<int32_t> active_;     // in ascending order
  std::optional<Mixture> mixture_;  // of two or more active sources
  std::optional<int64_t> length_;
  std::string endless_reason_;
};

}  // namespace xrun
