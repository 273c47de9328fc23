#pragma once
// The frozen twin of a policy, read through a cached column of log-probs.

#include <ATen/core/Tensor.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/model/ops/device.h"
#include "core/train/logprob_source.h"

namespace xrun {

class LogprobColumn;
class Model;
class ModelStandIn;
class Policy;

// A reference. Until the policy's next update it shares the policy's storage and forward
// (detached), so that step 0 is exact: rewards are 0, the DPO loss is ln 2. Afterwards logprob()
// reads a column that holds, for each pair the run visits, the two sums computed by the frozen
// weights with the pair alone in a pack: the values depend on neither the batch that asked nor on
// what was cached. The frozen weights load at the first value that the column lacks; they are never
// trained, saved or exported. Made by Policy::reference(). Not thread-safe.
class Reference : public LogprobSource {
 public:
  // Counts since creation, for tests and summaries.
  struct Counts {
    int64_t shared = 0;    // segments read from the policy's own forward
    int64_t cached = 0;    // segments read from the column
    int64_t computed = 0;  // segments computed by the frozen weights
  };

  // `weights` is the folder of the frozen weights, `digest` what they must hash to ("": what the
  // policy had before any update), `updates` the policy's count at which both are the same.
  Reference(std::shared_ptr<Policy> policy, std::filesystem::path weights, std::string digest,
            int64_t updates);
  ~Reference() override;  // syncs the columns; never throws

  using LogprobSource::logprob;
  using LogprobSource::token_logprob;
  // Runs the frozen model on the whole micro-batch (no column). Never has a gradient.
  at::Tensor token_logprob(const View& view) override;
  // From the column, computing what is missing. Never has a gradient. Throws Error if the folder's
  // weights are no longer those that the policy started from.
  at::Tensor logprob(const View& view) override;

  // As Policy::set_stand_in.
  void set_stand_in(std::shared_ptr<ModelStandIn> source) { stand_in_ = std::move(source); }
  const std::shared_ptr<ModelStandIn>& stand_in() const { return stand_in_; }

  // The weights that answer now: the policy's own while they are the same, else the frozen ones,
  // which load if they are not there yet. Throws Error as logprob does.
  Model& model();

  // Whether the policy's own forward answers now, as in step 0.
  bool shares() const;
  // The column of a data set if an earlier run or this one has put values into it, else nullptr.
  // Lasts as long as this. Throws Error if the folder is damaged.
  const LogprobColumn* known_column(const std::string& data_key);

  // Writes computed values to disk and syncs them; waits for those that a device has.
  void flush();
  // The same without a wait, between steps: what a device computed is copied to the host meanwhile,
  // and written by a later call.
  void flush_arrived();

  // Hashes the frozen weights again. Throws Error if they differ from those at the start.
  void check_digest();

  const std::shared_ptr<Policy>& policy() const { return policy_; }
  bool loaded() const { return model_ != nullptr; }  // the frozen weights take memory of their own
  const std::string& digest();                       // of the frozen weights; may load the policy's
  const std::filesystem::path& dir() const { return weights_; }
  const Counts& counts() const { return counts_; }
  // What names the column of a data set: weights, data, types, threads, device, settings, versions.
  Json column_key(const std::string& data_key);

 private:
  Model& frozen();
  LogprobColumn& column(const std::string& data_key);
  // Where a value stands in the columns.
  struct Place {
    std::string data_key;
    int64_t row;
    int8_t side;
    uint64_t tokens;  // hash of what was computed
    auto operator<=>(const Place&) const = default;
  };
  std::optional<at::Tensor> find(const Place& place);  // 0-dim
  void store(const Place& place, const at::Tensor& value);
  void copy_waiting();
  void store_copied();
  void flush_columns();
  at::Tensor column_values(const View& view);

  std::shared_ptr<Policy> policy_;
  std::shared_ptr<ModelStandIn> stand_in_;
  std::filesystem::path weights_;
  std::string digest_;
  int64_t updates_;
  std::shared_ptr<Model> model_;
  std::map<std::string, std::unique_ptr<LogprobColumn>> columns_;
  // Values that lie on a device and are not in their column yet, so that no step waits for one; and
  // the copy of some of them, one at a time.
  struct Copied {
    std::vector<Place> places;
    HostCopy values;  // [n]
  };
  std::map<Place, at::Tensor> waiting_;
  std::optional<Copied> copied_;
  Counts counts_;
};

}  // namespace xrun
