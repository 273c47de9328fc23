#pragma once
// A teacher's outputs for distillation, stored by row of a data set: top columns or hidden states.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/ops/linear_head.h"
#include "core/train/models/frozen_logprobs.h"

namespace xrun {

struct CompanionPack;

enum class FrozenCache {
  kNone,
  kTopColumns,  // "topk": ids and log-probs of a chunk's k most likely tokens, log-sum-exp, target
  kHidden,      // "hidden": hidden states, from which the head gives every log-prob again
};

// Returns a pack's own tokens and loss rows in the form of a companion: what a teacher of the same
// vocabulary reads. The chunks are those of the pack, numbered from 0, without the loss rows
// outside them; if it has none, or those of its companion, each loss row is a chunk.
CompanionPack own_tokens(const PackedBatch& pack);

// The values of those rows of a companion that predict its chunks, stored as one list per segment.
// They come from a forward of the frozen model over the canonical pack of the segment's row, as
// log-probs do (frozen_logprobs.h), so they depend neither on the batch that asked for them nor on
// whether they were stored. The key covers the weights, the types and both vocabularies; the stamp
// covers the teacher's tokens and, for columns, their chunks. A kill loses what was not flushed.
// Not thread-safe.
class FrozenRows {
 public:
  // The stored values of each row; FrozenSource supplies the model.
  struct Form {
    FrozenCache cache = FrozenCache::kHidden;
    int64_t top_k = 0;       // of kTopColumns
    double temperature = 1;  // of kTopColumns
    int64_t columns = 0;     // of the vocabulary that count, the first ones
    std::string vocabulary;  // fingerprint of the teacher's
    int64_t width = 0;       // D
  };

  FrozenRows(FrozenSource source, Form form);
  ~FrozenRows();  // syncs; never throws

  // Return the values of all rows of `tokens`, in its order, without gradient: [R, D] in the
  // storage type on the model's device, or the outputs of the head, [R] and [R, k], on the
  // micro-batch's.
  //   student  fingerprint of the vocabulary of the micro-batch's own tokens
  at::Tensor hidden(const MicroBatch& micro, const CompanionPack& tokens,
                    const std::string& student);
  HeadResult columns(const MicroBatch& micro, const CompanionPack& tokens,
                     const std::string& student);

  SidecarKey key(const std::string& data_key, int64_t max_tokens, const std::string& student) const;
  void flush();
  const SidecarCounts& counts() const { return counts_; }  // of segments

 private:
  // The bytes of each segment's values, in order.
  std::vector<std::string> values(const MicroBatch& micro, const CompanionPack& tokens,
                                  const std::string& student);
  std::map<SidecarEntry, std::string> compute(const MicroBatch& micro, const CompanionPack& tokens,
                                              size_t segment, const SidecarEntry& wanted,
                                              bool storable);
  std::vector<std::string> compute_pack(const CompanionPack& tokens);
  SidecarEntry entry_of(const PackedBatch& pack, const CompanionPack& tokens, size_t s) const;
  Sidecar& sidecar(const SidecarKey& key);
  std::optional<std::string> find(Sidecar& stored, const SidecarEntry& entry) const;
  void add(Sidecar& stored, const SidecarEntry& entry, const std::string& bytes) const;
  ColumnType value_type() const;
  int64_t value_bytes() const;  // of one row

  FrozenSource source_;
  Form form_;
  std::map<std::string, std::unique_ptr<Sidecar>> sidecars_;  // by the document of their key
  SidecarCounts counts_;
};

// Returns the hidden states of a companion's rows, [R, D] in the storage type, from one forward
// without gradient.
at::Tensor companion_hidden(Model& model, const CompanionPack& tokens);

}  // namespace xrun
