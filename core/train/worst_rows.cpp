// ranked_ holds the worst units so far, in order, at most `most_` of them. Texts are decoded only
// for those that remain.

#include "core/train/worst_rows.h"

#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "core/data/rows/row_length.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/micro_batch.h"

namespace xrun {

namespace {

constexpr int64_t kShownTokens = 96;  // of a prompt and of an answer: about three lines of text

// Returns the values of a metric or of the first loss, float64 on the host.
at::Tensor values_by(const ObjectiveResult& result, const std::string& by) {
  const auto host = [](const at::Tensor& value) {
    return value.detach().to(at::kCPU, at::kDouble).contiguous();
  };
  std::vector<std::string> known = {"loss"};
  for (const auto& [name, value] : result.metrics) {
    known.push_back(name);
    if (name != by) continue;
    XRUN_CHECK(value.dim() == 1, "the metric \"{}\" is a single number, not one per row", by);
    return host(value);
  }
  XRUN_CHECK(by == "loss", "the objective gives no \"{}\"{}; it gives {}", by,
             did_you_mean(by, known), fmt::join(known, ", "));
  return host(result.losses.front().second);
}

// The text of the first trained tokens of a segment.
std::string answer_of(const MicroBatch& micro, size_t segment, const Tokenizer& tokenizer) {
  const LossRows& rows = micro.pack().rows;
  std::vector<int32_t> ids;
  for (size_t r = 0; r < rows.segment.size() && std::ssize(ids) <= kShownTokens; ++r) {
    if (rows.segment[r] == static_cast<int32_t>(segment)) {
      ids.push_back(rows.target[r]);
    }
  }
  const bool more = std::ssize(ids) > kShownTokens;
  if (more) ids.pop_back();
  const std::string text = tokenizer.decode(ids, /*skip_special=*/true);
  return more ? without_broken_ends(text) + "…" : text;
}

// The text of the last tokens before the first one that a segment trains, without begin-of-text and
// turn markers.
std::string prompt_of(const MicroBatch& micro, size_t segment, const Tokenizer& tokenizer) {
  const PackedBatch& pack = micro.pack();
  const auto first =
      std::find(pack.rows.segment.begin(), pack.rows.segment.end(), static_cast<int32_t>(segment));
  if (first == pack.rows.segment.end()) return "";
  // The hidden state that predicts the first trained token is that of the prompt's last token.
  const auto end = pack.rows.hidden[static_cast<size_t>(first - pack.rows.segment.begin())] + 1;
  const auto begin = std::max<int64_t>(pack.cu_seqlens[segment], end - kShownTokens);
  const std::vector<int32_t> ids(pack.tokens.begin() + begin, pack.tokens.begin() + end);
  const std::string text = tokenizer.decode(ids, /*skip_special=*/true);
  return begin > pack.cu_seqlens[segment] ? "…" + without_broken_ends(text) : text;
}

}  // namespace

WorstRows::WorstRows(std::string by, int64_t most, bool highest, const Tokenizer* tokenizer)
    : by_(std::move(by)), most_(most), highest_(highest), tokenizer_(tokenizer) {}

void WorstRows::set_texts(const MicroBatch& micro, Unit unit, int64_t i, WorstRow& row) const {
  if (tokenizer_ == nullptr) return;
  const PackedBatch& pack = micro.pack();
  if (unit == Unit::kToken) {
    const std::vector<int32_t> id = {pack.rows.target[static_cast<size_t>(i)]};
    row.text = tokenizer_->decode(id);
  } else if (unit == Unit::kSequence) {
    row.prompt = prompt_of(micro, static_cast<size_t>(i), *tokenizer_);
    row.text = answer_of(micro, static_cast<size_t>(i), *tokenizer_);
  } else {
    const int64_t id = micro.unit_row(unit, i);
    for (size_t s = 0; s < pack.row_id.size(); ++s) {
      if (pack.row_id[s] != id) continue;
      // The chosen segment of a pair gives the prompt, which both share.
      const bool second = !pack.side.empty() && pack.side[s] < 0;
      (second ? row.rejected : row.text) = answer_of(micro, s, *tokenizer_);
      if (!second) row.prompt = prompt_of(micro, s, *tokenizer_);
    }
  }
}

void WorstRows::add(const ObjectiveResult& result, const MicroBatch& micro) {
  const at::Tensor of = values_by(result, by_);
  unit_.narrow(by_, of, result.losses.front().first, micro);
  const double* values = of.const_data_ptr<double>();
  const auto before = [this](double a, double b) {
    // A NaN is worse than any number.
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
    return highest_ ? a > b : a < b;
  };
  for (int64_t i = 0; i < of.numel(); ++i) {
    ++seen_;
    const auto rank =
        std::upper_bound(ranked_.begin(), ranked_.end(), values[i],
                         [&](double value, const Ranked& row) { return before(value, row.value); });
    if (rank == ranked_.end() && std::ssize(ranked_) >= most_) continue;
    // Holding a micro-batch is cheap: its graph is closed and its tokens are small.
    ranked_.insert(rank, {values[i], micro.shared_from_this(), i});
    if (std::ssize(ranked_) > most_) ranked_.pop_back();
  }
}

std::vector<WorstRow> WorstRows::rows() const {
  std::vector<WorstRow> out;
  for (const auto& [value, micro, index] : ranked_) {
    const Unit unit = unit_.candidates().front();
    WorstRow& row =
        out.emplace_back(WorstRow{value, micro->row_name(micro->unit_row(unit, index))});
    set_texts(*micro, unit, index, row);
  }
  return out;
}

}  // namespace xrun
