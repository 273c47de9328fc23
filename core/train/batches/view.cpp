// A view indexes into the fields and loss rows of its micro-batch; the view of everything returns
// them without a copy. It closes when the micro-batch's generation changes.

#include "core/train/batches/view.h"

#include <ATen/ops/index_add.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/batches/unit.h"

namespace xrun {

View::View(std::shared_ptr<MicroBatch> micro, std::shared_ptr<const ViewRows> rows)
    : micro_(std::move(micro)), rows_(std::move(rows)), generation_(micro_->generation()) {}

void View::check_open() const {
  XRUN_CHECK(generation_ == micro_->generation(),
             "this view ({}) is closed: its micro-batch ended with the step; keep what you need "
             "with xrun.keep(tensor) while it is open",
             rows_->name);
}

MicroBatch& View::micro() const {
  check_open();
  return *micro_;
}

const ViewRows& View::rows() const {
  check_open();
  return *rows_;
}

at::Tensor View::field(std::string_view name) const {
  check_open();
  bool by_row = false;
  const at::Tensor whole = micro_->field(name, &by_row);
  // The record of rollouts tells the loss path by the fields that an objective reads.
  micro_->note_read(name);
  if (rows_->everything) return whole;
  return at::index_select(whole, 0, by_row ? rows_->row : rows_->segment);
}

bool View::has_field(std::string_view name) const {
  const std::vector<std::string> names = field_names();
  // field_names is sorted.
  return std::binary_search(names.begin(), names.end(), name);
}

std::optional<std::vector<std::string>> View::strings(std::string_view name) const {
  check_open();
  const std::vector<std::string>* all = micro_->strings(name);
  if (all == nullptr) return std::nullopt;
  std::vector<std::string> out;
  for (int64_t s : rows_->segments) out.push_back((*all)[static_cast<size_t>(s)]);
  return out;
}

std::vector<std::string> View::field_names() const {
  check_open();
  return micro_->field_names();
}

// Throws unless x has shape [count].
void View::check_members(const char* method, const char* member, int64_t count,
                         const at::Tensor& x) const {
  check_open();
  XRUN_CHECK(x.dim() == 1 && x.numel() == count,
             "{} takes one value per {}: got shape [{}], wanted [{}]", method, member,
             fmt::join(x.sizes(), ", "), count);
}

at::Tensor View::sum(const at::Tensor& x) const {
  check_members("sum", "trained token", row_count(), x);
  // x [R], result [n]: row r is added to its sequence's sum.
  return at::index_add(at::zeros({size()}, x.options()), 0, rows_->row_segment, x);
}

// A sequence without a trained token has the mean 0, not NaN.
at::Tensor View::mean(const at::Tensor& x) const { return sum(x).div(rows_->length.clamp_min(1)); }

at::Tensor View::spread(const at::Tensor& x) const {
  check_members("spread", "sequence", size(), x);
  return at::index_select(x, 0, rows_->row_segment);
}

at::Tensor View::truncated_ratio(double cap, RatioOver over) const {
  check_open();
  XRUN_CHECK(cap > 0, "the cap of a truncated ratio is {}, wanted a number above 0", cap);
  XRUN_CHECK(
      has_field("sampler_logprob"),
      "truncated_ratio needs rollouts; the rows of this batch come from the data, not from a "
      "policy");
  micro_->note_corrected();
  // min(exp(old - sampler), cap): a constant, since both were computed before the step.
  at::Tensor difference = field("old_logprob").sub(field("sampler_logprob"));
  if (over == RatioOver::kMean) difference = mean(difference);
  if (over == RatioOver::kSum) difference = sum(difference);
  return difference.exp().clamp_max(cap);
}

at::Tensor View::group_sum(const at::Tensor& x) const {
  check_members("group_sum", "sequence", size(), x);
  const std::vector<int64_t>& whole = micro_->pack().group_id;
  std::vector<int64_t> ids;
  // Groups are numbered by first appearance in the view, like losses of groups.
  for (int64_t s : rows_->segments) ids.push_back(whole[static_cast<size_t>(s)]);
  return group_by(ids).sum(x);
}

at::Tensor View::chunk_sum(const at::Tensor& x) const {
  check_members("chunk_sum", "trained token", row_count(), x);
  const std::vector<int32_t>& whole = micro_->pack().chunk;
  XRUN_CHECK(!whole.empty() || row_count() == 0,
             "chunk_sum: the data of this batch have no chunks");
  std::vector<int32_t> ids;
  for (const int64_t row : rows_->loss_rows) ids.push_back(whole[static_cast<size_t>(row)]);
  return group_by(ids).sum(x);
}

void View::check_whole(const char* what) const {
  XRUN_CHECK(
      rows().everything,
      "{} reads the chunks of a whole micro-batch, but the view {} is a part of it; pass the "
      "view that the objective received",
      what, name());
}

at::Tensor View::select_rows(const at::Tensor& micro_rows) const {
  check_open();
  if (rows_->everything) return micro_rows;
  return at::index_select(micro_rows, 0, rows_->row);
}

}  // namespace xrun
