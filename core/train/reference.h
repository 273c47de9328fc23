#pragma once
// The frozen twin of a policy, read through a sidecar of log-probs.

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

#include "core/data/cache/sidecar.h"
#include "core/model/ops/device.h"
#include "core/train/logprob_source.h"

namespace xrun {

class MicroBatch;
class Model;
struct PackedBatch;
class Policy;

// Until the policy's next update a reference shares the policy's storage and forward (detached), so
// that step 0 is exact: rewards are 0, the DPO loss is ln 2. Afterwards logprob() reads a sidecar
// that holds the sums of each row the run visits, computed by the frozen weights in canonical
// packs: runs of consecutive rows of the cache, whose borders depend only on the cache
// (DataSet::canonical_pack). So a value does not depend on the batch that asked or on earlier
// rows. Rows of no data set are computed alone. The frozen weights load at the first missing
// value; they are never trained, saved or exported. Made by Policy::reference(). Not thread-safe.
class Reference : public LogprobSource {
 public:
  // Counts since creation, for tests and summaries.
  struct Counts {
    int64_t shared = 0;    // segments read from the policy's own forward
    int64_t cached = 0;    // segments read from the sidecar
    int64_t computed = 0;  // segments computed by the frozen weights
  };

  // `weights` is the folder of the frozen weights, `digest` their hash ("": the policy's before any
  // update), `updates` the policy's update count at which both are the same.
  Reference(std::shared_ptr<Policy> policy, std::filesystem::path weights, std::string digest,
            int64_t updates);
  ~Reference() override;  // syncs the sidecars; never throws

  // True while the policy's own forward answers, as in step 0.
  bool shares() const;
  // Returns the sidecar of a data set under a batch.max_tokens if this run or an earlier one has
  // put values into it, else nullptr. Valid as long as this object. Throws Error if it is damaged.
  const Sidecar* known_sidecar(const std::string& data_key, int64_t max_tokens);

  // Writes computed values to disk and syncs them; waits for those that a device has.
  void flush();
  // The same without waiting, between steps: values on a device are copied to the host meanwhile
  // and written by a later call.
  void flush_arrived();

  // Hashes the frozen weights again. Throws Error if they differ from those at the start.
  void check_digest();

  const std::shared_ptr<Policy>& policy() const { return policy_; }
  bool loaded() const { return model_ != nullptr; }  // the frozen weights take separate memory
  const std::string& digest();                       // of the frozen weights; may load the policy's
  const std::filesystem::path& dir() const { return weights_; }
  const Counts& counts() const { return counts_; }
  // Tokens of a canonical pack for batches of at most max_tokens; 0: unknown.
  static int64_t canonical_tokens(int64_t max_tokens);
  // The sidecar's key: weights, data, tokens of a canonical pack (at most max_tokens), types,
  // threads, device, settings, versions.
  SidecarKey sidecar_key(const std::string& data_key, int64_t max_tokens = 0);

 protected:
  // No answer has a gradient. Each throws Error if the folder's weights are no longer those that
  // the policy started from.
  // The policy's weights while they are the same, else the frozen ones, loaded if necessary.
  Model& own_model() override;
  // Runs the frozen model on the whole micro-batch (no sidecar).
  at::Tensor own_token_logprob(const View& view) override;
  // From the sidecar; computes missing values.
  at::Tensor own_logprob(const View& view) override;
  // The sidecar stores only sums of log-probs, so the frozen model runs once over the whole
  // micro-batch. Its log-probs may differ in their last digits from those of the sidecar.
  HeadResult own_head(const View& view, const HeadOptions& options,
                      const at::Tensor& target) override;
  at::Tensor own_logits(const View& view) override;
  at::Tensor own_score(const View& view, const ScoreWeight& weight) override;

 private:
  struct SidecarName {
    std::string data_key;
    int64_t pack_tokens;
    auto operator<=>(const SidecarName&) const = default;
  };
  struct NamedEntry {
    SidecarName sidecar;
    SidecarEntry entry;
    auto operator<=>(const NamedEntry&) const = default;
  };
  Model& frozen();
  Sidecar& sidecar(const SidecarName& name);
  std::optional<at::Tensor> find(const NamedEntry& entry);  // 0-dim
  void store(const NamedEntry& entry, const at::Tensor& value);
  static std::vector<NamedEntry> entries_of(const SidecarName& sidecar, const PackedBatch& pack);
  std::map<NamedEntry, at::Tensor> compute(const MicroBatch& micro, const NamedEntry& wanted,
                                           size_t segment, bool storable);
  void copy_waiting();
  void store_copied();
  void flush_sidecars();
  at::Tensor sidecar_values(const View& view);

  std::shared_ptr<Policy> policy_;
  std::filesystem::path weights_;
  std::string digest_;
  int64_t updates_;
  std::shared_ptr<Model> model_;
  std::map<SidecarName, std::unique_ptr<Sidecar>> sidecars_;
  // Values still on the device. They are copied to the host in the background, one batch of values
  // at a time, so that no step waits.
  struct Copied {
    std::vector<NamedEntry> entries;
    HostCopy values;  // [n]
  };
  std::map<NamedEntry, at::Tensor> waiting_;
  std::optional<Copied> copied_;
  Counts counts_;
};

}  // namespace xrun
