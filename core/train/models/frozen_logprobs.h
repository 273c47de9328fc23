#pragma once
// The sums of a frozen model's log-probs by row, computed in canonical packs, stored in sidecars.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/cache/sidecar.h"
#include "core/model/ops/device.h"
#include "core/model/ops/linear.h"

namespace xrun {

class MicroBatch;
class Model;
class View;
struct PackedBatch;
struct SegmentTokens;

// The settings that decide the bits of a frozen model's values.
struct FrozenSettings {
  c10::ScalarType dtype = c10::ScalarType::Float;
  GemmType gemm = GemmType::kStorage;
  c10::Device device = c10::kCPU;
  int64_t head_mb = 1024;
};

// The frozen weights, supplied by their owner.
struct FrozenSource {
  std::function<Model&()> model;        // loads the weights at the first call
  std::function<std::string()> digest;  // identifies the weights in keys
  std::function<FrozenSettings()> settings;
};

// Tokens of a canonical pack for batches of at most max_tokens; 0: unknown.
int64_t canonical_tokens(int64_t max_tokens);

// Returns the key of a sidecar for values of frozen weights. It covers weights, data, tokens of a
// canonical pack, types, threads, device, processor, head_mb and versions.
//   format  raised when the same key would give other values
SidecarKey frozen_key(const std::string& name, int64_t format, const FrozenSource& source,
                      const std::string& data_key, int64_t pack_tokens);

// Returns the stamp of a segment: a hash of its tokens and of those that are trained. A row whose
// text or template has changed misses its old value.
uint64_t stamp_of(const SegmentTokens& segment);

// The values of one frozen model: the sum of log-probs of each row that a run visits, computed in
// canonical packs. These are runs of consecutive rows whose borders depend only on the cache
// (DataSet::canonical_pack), so a value depends neither on the batch that asked for it nor on
// earlier rows. Rows of no data set are computed alone. Not thread-safe.
class FrozenLogprobs {
 public:
  explicit FrozenLogprobs(FrozenSource source);
  ~FrozenLogprobs();  // syncs the sidecars; never throws
  FrozenLogprobs(const FrozenLogprobs&) = delete;
  FrozenLogprobs& operator=(const FrozenLogprobs&) = delete;

  // Returns the sum over the trained tokens of each segment, [n] float32 without gradient: from the
  // sidecar, which gets the values it lacks.
  at::Tensor logprob(const View& view);

  SidecarKey key(const std::string& data_key, int64_t max_tokens) const;
  // Returns the sidecar for a data set and a batch.max_tokens if this run or an earlier one has put
  // values into it, else nullptr. It lives as long as this object. Throws Error if it is damaged.
  const Sidecar* known_sidecar(const std::string& data_key, int64_t max_tokens);

  // Writes computed values to disk and syncs them; waits for those still on a device.
  void flush();
  // Called between steps: flushes without waiting. Values on a device are copied to the host in the
  // background and written by a later call.
  void flush_arrived();

  const SidecarCounts& counts() const { return counts_; }  // of segments

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
  Sidecar& sidecar(const SidecarName& name);
  std::optional<at::Tensor> find(const NamedEntry& entry);  // 0-dim
  void store(const NamedEntry& entry, const at::Tensor& value);
  static std::vector<NamedEntry> entries_of(const SidecarName& sidecar, const PackedBatch& pack);
  std::map<NamedEntry, at::Tensor> compute(const MicroBatch& micro, const NamedEntry& wanted,
                                           size_t segment, bool storable);
  void copy_waiting();
  void store_copied();
  void flush_sidecars();

  FrozenSource source_;
  std::map<SidecarName, std::unique_ptr<Sidecar>> sidecars_;
  // Values still on the device. They are copied to the host in the background, one batch of values
  // at a time, so that no step waits.
  struct HostValues {
    std::vector<NamedEntry> entries;
    HostCopy values;  // [n]
  };
  std::map<NamedEntry, at::Tensor> waiting_;
  std::optional<HostValues> copied_;
  SidecarCounts counts_;
};

}  // namespace xrun
