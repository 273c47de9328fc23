#pragma once
// Some segments of one micro-batch, as an objective sees them.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

class MicroBatch;

// The segments and loss rows of a view. Immutable; owned by the micro-batch.
struct ViewRows {
  std::string name;                // "all", "chosen", "rejected": the suffix of its metrics
  std::vector<int64_t> segments;   // [n] segment of the micro-batch, in the view's order
  std::vector<int64_t> loss_rows;  // [R] loss row of the micro-batch
  // On the micro-batch's device:
  at::Tensor segment;       // [n] int64
  at::Tensor row;           // [R] int64, loss row of the micro-batch
  at::Tensor row_segment;   // [R] int64, index in the view 0..n-1
  at::Tensor length;        // [n] int64, loss rows per segment
  bool everything = false;  // all rows of the micro-batch, in its own order
};

// A view of n segments with R loss rows in total. Cheap to copy. Every method throws Error with
// "closed" once the micro-batch has ended its step (MicroBatch::close); tensors read before stay
// valid.
class View {
 public:
  View(std::shared_ptr<MicroBatch> micro, std::shared_ptr<const ViewRows> rows);

  const std::string& name() const { return rows_->name; }
  int64_t size() const { return static_cast<int64_t>(rows_->segments.size()); }  // n
  int64_t row_count() const { return rows_->row.numel(); }                       // R
  MicroBatch& micro() const;
  const ViewRows& rows() const;

  // A field by name, [n] or [R]: length (trained tokens), tokens (all), row, source, pair, group,
  // weight ([n] float32, the loss weight of a segment, 1 by default), every extra column of
  // numbers, and the fields assigned to the batch. Counts and ids are int64. Throws Error with the
  // nearest name if there is none.
  at::Tensor field(std::string_view name) const;
  bool has_field(std::string_view name) const;
  // An extra column of strings, one per segment; nullopt if there is none of this name.
  std::optional<std::vector<std::string>> strings(std::string_view name) const;
  std::vector<std::string> field_names() const;  // sorted

  at::Tensor length() const { return field("length"); }
  at::Tensor tokens() const { return field("tokens"); }

  // [R] -> [n]: sum or mean over a segment's loss rows, 0 if it has none. Deterministic;
  // differentiable. Throws Error if x is not [R].
  at::Tensor sum(const at::Tensor& x) const;
  at::Tensor mean(const at::Tensor& x) const;
  // [n] -> [R]: each loss row gets its segment's value. Throws Error if x is not [n].
  at::Tensor spread(const at::Tensor& x) const;

  // Returns the weights of truncated importance sampling (TIS), constants that multiply the loss of
  // a policy gradient: min(exp(old_logprob - sampler_logprob), cap). old_logprob is that of the
  // policy before its first update on a batch of rollouts, sampler_logprob that of the policy that
  // sampled them.
  //   kTokens    a weight per trained token, [R]
  //   kMean      per sequence, [n], with the mean of the differences over its tokens (GSPO)
  //   kSum       per sequence, [n], with their sum (the ratio of whole answers)
  // Throws Error unless cap > 0 and the batch is of rollouts.
  enum class RatioOver { kTokens, kMean, kSum };
  at::Tensor truncated_ratio(double cap, RatioOver over = RatioOver::kTokens) const;

  // Sums over the sequences of each group, [n] -> [groups], or the trained tokens of each chunk,
  // [R] -> [chunks], units in the order in which they first appear. Differentiable. Throws Error if
  // x has another shape.
  at::Tensor group_sum(const at::Tensor& x) const;
  at::Tensor chunk_sum(const at::Tensor& x) const;

  // Selects this view's rows of a tensor [R of the micro-batch]; differentiable.
  at::Tensor select_rows(const at::Tensor& micro_rows) const;

  // Throws Error with "closed" if the micro-batch has closed since this view was made.
  void check_open() const;
  // Throws Error unless the view is of the whole micro-batch. `what` is the function that reads
  // chunks.
  void check_whole(const char* what) const;

 private:
  void check_members(const char* method, const char* member, int64_t count,
                     const at::Tensor& x) const;

  std::shared_ptr<MicroBatch> micro_;
  std::shared_ptr<const ViewRows> rows_;
  uint64_t generation_;
};

}  // namespace xrun
