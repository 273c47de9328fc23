#include "core/train/extreme_rows.h"

#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/suggest.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/metric_sums.h"
#include "core/train/micro_batch.h"

namespace xrun {

namespace {

constexpr int64_t kShownTokens = 24;  // of an answer

// The value of each unit and what the unit is.
struct Values {
  Unit unit;
  at::Tensor values;  // float64 on the host
};

Values values_of(const ObjectiveResult& result, const MicroBatch& micro, const std::string& by) {
  const auto host = [](const at::Tensor& value) {
    return value.detach().to(at::kCPU, at::kDouble).contiguous();
  };
  const Unit first = result.losses.front().first;
  std::vector<std::string> known = {"loss"};
  for (const auto& [name, value] : result.metrics) {
    known.push_back(name);
    if (name != by) continue;
    XRUN_CHECK(value.dim() == 1, "the metric \"{}\" is a single number, not one for each row", by);
    return {unit_of_metric(name, value, first, micro), host(value)};
  }
  XRUN_CHECK(by == "loss", "the objective gives no \"{}\"{}; it gives {}", by,
             did_you_mean(by, known), fmt::join(known, ", "));
  return {first, host(result.losses.front().second)};
}

// Tokens that a segment trains, the first few of them.
std::string answer_of(const MicroBatch& micro, size_t segment, const Tokenizer& tokenizer) {
  const LossRows& rows = micro.pack().rows;
  std::vector<int32_t> ids;
  for (size_t r = 0; r < rows.segment.size() && std::ssize(ids) < kShownTokens; ++r) {
    if (rows.segment[r] == static_cast<int32_t>(segment)) {
      ids.push_back(rows.target[r]);
    }
  }
  return tokenizer.decode(ids, /*skip_special=*/true);
}

}  // namespace

ExtremeRows::ExtremeRows(std::string by, int64_t most, bool highest, const Tokenizer* tokenizer)
    : by_(std::move(by)), most_(most), highest_(highest), tokenizer_(tokenizer) {}

void ExtremeRows::set_texts(const MicroBatch& micro, Unit unit, int64_t i, ExtremeRow& row) const {
  if (tokenizer_ == nullptr) return;
  const PackedBatch& pack = micro.pack();
  if (unit == Unit::kToken) {
    const std::vector<int32_t> id = {pack.rows.target[static_cast<size_t>(i)]};
    row.text = tokenizer_->decode(id);
  } else if (unit == Unit::kSequence) {
    row.text = answer_of(micro, static_cast<size_t>(i), *tokenizer_);
  } else {
    const int64_t id = micro.unit_row(unit, i);
    for (size_t s = 0; s < pack.row_id.size(); ++s) {
      if (pack.row_id[s] != id) continue;
      const bool second = !pack.side.empty() && pack.side[s] < 0;
      (second ? row.rejected : row.text) = answer_of(micro, s, *tokenizer_);
    }
  }
}

void ExtremeRows::add(const ObjectiveResult& result, const MicroBatch& micro) {
  const Values of = values_of(result, micro, by_);
  const double* values = of.values.const_data_ptr<double>();
  const auto before = [this](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
    return highest_ ? a > b : a < b;
  };
  for (int64_t i = 0; i < of.values.numel(); ++i) {
    ++seen_;
    const auto place = std::upper_bound(
        kept_.begin(), kept_.end(), values[i],
        [&](double value, const ExtremeRow& row) { return before(value, row.value); });
    if (place == kept_.end() && std::ssize(kept_) >= most_) continue;
    ExtremeRow row{values[i], micro.row_name(micro.unit_row(of.unit, i)), ""};
    set_texts(micro, of.unit, i, row);
    kept_.insert(place, std::move(row));
    if (std::ssize(kept_) > most_) kept_.pop_back();
  }
}

std::vector<ExtremeRow> ExtremeRows::rows() const { return kept_; }

}  // namespace xrun
