#pragma once
// The data of one step: micro-batches, and fields in batch order.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/train/batches/micro_batch.h"

namespace xrun {

// The data of one step. Batch order is the order of the step's stream, whatever the packing: pairs
// by pair_id, chosen before rejected; otherwise sequences by segment_id. Not thread-safe.
class Batch {
 public:
  // Takes packs whose pair_id (or segment_id) is unique in the step and rises in stream order.
  // Throws Error if a segment occurs twice.
  Batch(BatchInfo info, std::vector<PackedBatch> packs);
  virtual ~Batch() = default;

  int64_t step() const { return info_->step; }
  int64_t schedule_step() const { return info_->phase_step < 0 ? step() : info_->phase_step; }
  int64_t total_steps() const { return info_->total_steps; }
  Unit unit() const { return info_->unit; }
  const BatchInfo& info() const { return *info_; }
  int64_t size() const { return static_cast<int64_t>(segment_order_.size()); }   // n segments
  int64_t row_count() const { return static_cast<int64_t>(row_order_.size()); }  // R
  int64_t token_count() const;                                                   // T
  AlignmentCounts alignment() const;                                             // over all packs
  const std::vector<std::shared_ptr<MicroBatch>>& micros() const { return micros_; }

  // Assigns a field, [n] or [R] in batch order ([P] for pairs: both sides get their pair's value);
  // views of the micro-batches see their slice. Detached.
  //   unit  kPair, kSequence or kToken: the unit of the values. Without it the unit is that of the
  //         tensor if this batch made it (logprob, token_logprob, field), else its length decides.
  // Throws Error if the length fits no unit (the message lists the lengths that do), if it fits two
  // and the unit is unknown, or if the name belongs to the data.
  void set_field(const std::string& name, const at::Tensor& value,
                 std::optional<Unit> unit = std::nullopt);

  // Returns a field in batch order: an assigned one as it was given, otherwise as View::field.
  at::Tensor field(std::string_view name) const;
  bool has_field(std::string_view name) const;
  // An extra column of strings in batch order; nullopt if there is none of this name.
  std::optional<std::vector<std::string>> strings(std::string_view name) const;
  void set_strings(const std::string& name, const std::vector<std::string>& values);  // [n]
  std::vector<std::string> field_names() const;                                       // sorted

  // [R] -> [n], both in batch order: the sum over each segment's loss rows, as View::sum. Throws
  // Error if x is not [R].
  at::Tensor sum(const at::Tensor& x) const;

  // Index of the batch's i-th segment in the concatenation over micro-batches.
  const std::vector<int64_t>& segment_order() const { return segment_order_; }
  // Concatenates one tensor per micro-batch and brings it into batch order: [R] if by_row, else
  // [n]. The batch remembers the unit of the result for set_field.
  at::Tensor in_batch_order(const std::vector<at::Tensor>& parts, bool by_row) const;

  // Closes every micro-batch.
  void close();

 private:
  // The unit of a tensor that this batch made, as long as somebody holds it.
  struct MadeTensor {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    Unit unit;
  };
  int64_t pair_count() const;
  std::vector<Unit> units_of_length(int64_t length) const;
  std::optional<Unit> made_as(const at::Tensor& value) const;
  void note_made(const at::Tensor& value, Unit unit) const;
  bool one_row_per_segment() const;
  double signed_scale(const at::Tensor& value, bool by_row) const;
  Unit assigned_unit(const std::string& name, const at::Tensor& value,
                     std::optional<Unit> unit) const;

  std::shared_ptr<const BatchInfo> info_;
  std::vector<std::shared_ptr<MicroBatch>> micros_;
  // Of the i-th segment and loss row of the batch, the index in the concatenation over
  // micro-batches.
  std::vector<int64_t> segment_order_, row_order_;
  std::vector<int64_t> row_segment_;  // [R] of each loss row, its segment; both in batch order
  std::map<std::string, at::Tensor, std::less<>> assigned_;
  mutable std::vector<MadeTensor> made_;
};

}  // namespace xrun
