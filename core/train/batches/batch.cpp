// batch[i] = concatenation[order[i]]: one permutation for segments and one for loss rows brings
// micro-batches into the order of the step's stream.

#include "core/train/batches/batch.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/model/ops/device.h"

namespace xrun {
namespace {

// A segment: its key in the stream, its index in the concatenation, its loss rows there.
struct SegmentRows {
  int64_t key;
  int64_t segment;
  int64_t row_begin, row_end;
};

// The position in the step's stream: the sides of a pair are neighbours, chosen first.
int64_t stream_key(const PackedBatch& pack, size_t s) {
  const int64_t pair = pack.pair_id[s];
  return pair < 0 ? pack.segment_id[s] : 2 * pair + (pack.side[s] < 0 ? 1 : 0);
}

std::vector<SegmentRows> segments_in_order(const std::vector<std::shared_ptr<MicroBatch>>& micros) {
  std::vector<SegmentRows> segments;
  int64_t row = 0;
  for (const auto& micro : micros) {
    const PackedBatch& pack = micro->pack();
    size_t r = 0;
    for (size_t s = 0; s < static_cast<size_t>(pack.segment_count()); ++s) {
      const size_t first = r;
      // Loss rows are in the order of the segments; a segment may have none.
      while (r < pack.rows.segment.size() && static_cast<size_t>(pack.rows.segment[r]) == s) ++r;
      segments.push_back({stream_key(pack, s), static_cast<int64_t>(segments.size()),
                          row + static_cast<int64_t>(first), row + static_cast<int64_t>(r)});
    }
    row += pack.rows.size();
  }
  // Packing decides where a segment is computed, never where it is in the batch: a recipe
  // reads and assigns values in the order of the stream.
  std::stable_sort(segments.begin(), segments.end(),
                   [](const SegmentRows& a, const SegmentRows& b) { return a.key < b.key; });
  for (size_t i = 1; i < segments.size(); ++i) {
    // A repeated key would leave the order to the packing.
    XRUN_CHECK(segments[i].key != segments[i - 1].key,
               "segment {} occurs twice in a batch: pair_id and segment_id must be unique in "
               "a step",
               segments[i].key);
  }
  return segments;
}

// Tells micro-batches which groups have segments in several of them.
void note_split_groups(const std::vector<std::shared_ptr<MicroBatch>>& micros) {
  struct GroupPosition {
    size_t micro;
    int64_t segment;
  };
  std::map<int64_t, GroupPosition> first;
  for (size_t m = 0; m < micros.size(); ++m) {
    const std::vector<int64_t>& groups = micros[m]->pack().group_id;
    for (size_t s = 0; s < groups.size(); ++s) {
      const auto segment = static_cast<int64_t>(s);
      const GroupPosition seen = first.emplace(groups[s], GroupPosition{m, segment}).first->second;
      // Negative ids belong to no group.
      if (seen.micro == m || groups[s] < 0) continue;
      micros[m]->note_split_group(segment);
      micros[seen.micro]->note_split_group(seen.segment);
    }
  }
}

// An index into a tensor of this device.
at::Tensor index_of(const std::vector<int64_t>& values, c10::Device device) {
  return on_device(at::tensor(values, at::TensorOptions().dtype(at::kLong)), device);
}

// The inverse of a permutation.
std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> out(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return out;
}

}  // namespace

Batch::Batch(BatchInfo info, std::vector<PackedBatch> packs)
    : info_(std::make_shared<const BatchInfo>(std::move(info))) {
  for (PackedBatch& pack : packs) {
    micros_.push_back(
        std::make_shared<MicroBatch>(std::move(pack), info_, static_cast<int64_t>(micros_.size())));
  }
  // Before any objective runs: a loss per group must be refused at once, not in the middle of a
  // step.
  note_split_groups(micros_);
  for (const SegmentRows& segment : segments_in_order(micros_)) {
    for (int64_t r = segment.row_begin; r < segment.row_end; ++r) {
      row_order_.push_back(r);
      row_segment_.push_back(size());
    }
    segment_order_.push_back(segment.segment);
  }
}

int64_t Batch::token_count() const {
  int64_t tokens = 0;
  for (const auto& micro : micros_) tokens += micro->token_count();
  return tokens;
}

AlignmentCounts Batch::alignment() const {
  AlignmentCounts counts;
  for (const auto& micro : micros_) counts.add(micro->pack().alignment);
  return counts;
}

int64_t Batch::pair_count() const {
  int64_t pairs = 0;
  for (const auto& micro : micros_) pairs += micro->pair_count();
  return pairs;
}

std::vector<Unit> Batch::units_of_length(int64_t length) const {
  const int64_t pairs = pair_count();
  std::vector<Unit> units;
  if (length == size()) units.push_back(Unit::kSequence);
  // Both sides of a pair are neighbours in batch order.
  if (pairs > 0 && length == pairs && 2 * pairs == size()) units.push_back(Unit::kPair);
  if (length == row_count()) units.push_back(Unit::kToken);
  return units;
}

bool Batch::one_row_per_segment() const {
  return std::all_of(micros_.begin(), micros_.end(), [](const auto& micro) {
    const std::vector<int32_t>& segment = micro->pack().rows.segment;
    for (size_t r = 0; r < segment.size(); ++r) {
      if (segment[r] != static_cast<int32_t>(r)) return false;
    }
    return std::ssize(segment) == micro->segment_count();
  });
}

std::optional<Unit> Batch::made_as(const at::Tensor& value) const {
  for (const MadeTensor& made : made_) {
    const auto held = made.tensor.lock();
    // By identity, so that a new tensor of equal length has no unit yet.
    if (held.get() == value.unsafeGetTensorImpl()) return made.unit;
  }
  return std::nullopt;
}

void Batch::note_made(const at::Tensor& value, Unit unit) const {
  // Weak: a note about a tensor must not keep its memory.
  std::erase_if(made_, [](const MadeTensor& made) { return made.tensor.expired(); });
  made_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(value.getIntrusivePtr()), unit});
}

Unit Batch::assigned_unit(const std::string& name, const at::Tensor& value,
                          std::optional<Unit> unit) const {
  std::vector<Unit> units;
  if (value.dim() == 1) units = units_of_length(value.size(0));
  // A tensor that this batch itself returned has a known unit, even where lengths agree.
  if (!unit) unit = made_as(value);
  if (unit) std::erase_if(units, [&](Unit one) { return one != *unit; });
  const int64_t pairs = pair_count();
  XRUN_CHECK(!units.empty(),
             "batch.{} has shape [{}], wanted [{}] (one per sequence){} or [{}] (one per trained "
             "token){}",
             name, fmt::join(value.sizes(), ", "), size(),
             pairs > 0 ? fmt::format(", [{}] (one per pair)", pairs) : std::string(), row_count(),
             unit ? fmt::format("; it is given per {}", unit_name(*unit)) : "");
  // With one trained token in every sequence both readings give the same slices.
  const bool same_slices = units.front() == Unit::kSequence && one_row_per_segment();
  XRUN_CHECK(units.size() == 1 || same_slices,
             "batch.{0} has {1} values, and this batch has {1} {2}s and {1} trained tokens: write "
             "batch:set_field(\"{0}\", x, \"{2}\") or batch:set_field(\"{0}\", x, \"token\")",
             name, value.size(0), unit_name(units.front()));
  return units.front();
}

// The sum of row weights over the sum of row weights times |value|, for signed weights in batch
// order (reinforce.h); 0 if all values are 0, -1 for whole numbers. Summed in batch order, so that
// packing does not change it.
double Batch::signed_scale(const at::Tensor& value, bool by_row) const {
  if (!value.is_floating_point()) return -1;
  std::vector<float> weights;     // of each loss row of the concatenation
  std::vector<int64_t> segments;  // and its segment there
  int64_t first = 0;
  for (const auto& micro : micros_) {
    const LossRows& rows = micro->pack().rows;
    weights.insert(weights.end(), rows.weight.begin(), rows.weight.end());
    // Segments are numbered through all micro-batches.
    for (const int32_t segment : rows.segment) segments.push_back(first + segment);
    first += micro->segment_count();
  }
  const at::Tensor host = value.to(at::kCPU, at::kDouble).contiguous();
  const double* const values = host.const_data_ptr<double>();
  const std::vector<int64_t> rank = inverse(segment_order_);
  double total = 0, absolute = 0;
  for (size_t j = 0; j < row_order_.size(); ++j) {
    const auto row = static_cast<size_t>(row_order_[j]);
    const auto at = by_row ? static_cast<int64_t>(j) : rank[static_cast<size_t>(segments[row])];
    total += weights[row];
    absolute += weights[row] * std::fabs(values[at]);
  }
  return absolute > 0 ? total / absolute : 0.0;
}

void Batch::set_field(const std::string& name, const at::Tensor& value, std::optional<Unit> unit) {
  static const std::vector<std::string> own = MicroBatch::own_field_names();
  XRUN_CHECK(std::find(own.begin(), own.end(), name) == own.end(),
             "batch.{} belongs to the data and cannot be assigned; choose another name", name);
  const Unit of = assigned_unit(name, value, unit);
  const bool by_row = of == Unit::kToken;
  // A field is data: a graph held here would outlive the step.
  const at::Tensor given = value.detach();
  // Fields are stored by segment; both sides of a pair get the value of the pair.
  at::Tensor ordered = of == Unit::kPair ? given.repeat_interleave(2) : given;
  const double scale = signed_scale(ordered, by_row);
  const auto& order = by_row ? row_order_ : segment_order_;
  // Assigned in batch order, stored in the order of the micro-batches.
  ordered = at::index_select(ordered, 0, index_of(inverse(order), ordered.device()));
  int64_t begin = 0;
  for (const auto& micro : micros_) {
    const int64_t count = by_row ? micro->row_count() : micro->segment_count();
    micro->set_field(name, ordered.slice(0, begin, begin + count), by_row, scale);
    begin += count;
  }
  note_made(given, of);
  // As the recipe gave it, per pair too: reading it back returns the same tensor.
  assigned_[name] = given;
}

at::Tensor Batch::field(std::string_view name) const {
  if (const auto found = assigned_.find(name); found != assigned_.end()) return found->second;
  XRUN_CHECK(!micros_.empty(), "this batch is empty: it has no field \"{}\"", name);
  std::vector<at::Tensor> parts;
  bool by_row = false;
  for (const auto& micro : micros_) parts.push_back(micro->field(name, &by_row));
  return in_batch_order(parts, by_row);
}

at::Tensor Batch::sum(const at::Tensor& x) const {
  XRUN_CHECK(x.dim() == 1 && x.numel() == row_count(),
             "sum takes one value per trained token: got shape [{}], wanted [{}]",
             fmt::join(x.sizes(), ", "), row_count());
  const at::Tensor sums =
      at::index_add(at::zeros({size()}, x.options()), 0, index_of(row_segment_, x.device()), x);
  note_made(sums, Unit::kSequence);
  return sums;
}

bool Batch::has_field(std::string_view name) const {
  const std::vector<std::string> names = field_names();
  return std::binary_search(names.begin(), names.end(), name);
}

std::optional<std::vector<std::string>> Batch::strings(std::string_view name) const {
  std::vector<std::string> packed;
  for (const auto& micro : micros_) {
    // All micro-batches have the same columns, so the first without one decides.
    const std::vector<std::string>* values = micro->strings(name);
    if (values == nullptr) return std::nullopt;
    packed.insert(packed.end(), values->begin(), values->end());
  }
  if (micros_.empty()) return std::nullopt;
  std::vector<std::string> out;
  for (const int64_t s : segment_order_) out.push_back(packed[static_cast<size_t>(s)]);
  return out;
}

void Batch::set_strings(const std::string& name, const std::vector<std::string>& values) {
  XRUN_CHECK(std::ssize(values) == size(), "batch.{} has {} strings, wanted {} (one per sequence)",
             name, values.size(), size());
  std::vector<std::string> packed(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    packed[static_cast<size_t>(segment_order_[i])] = values[i];
  }
  auto next = packed.begin();
  for (const auto& micro : micros_) {
    const auto end = next + micro->segment_count();
    micro->set_strings(name, {next, end});
    next = end;
  }
  assigned_.erase(name);
}

std::vector<std::string> Batch::field_names() const {
  return micros_.empty() ? std::vector<std::string>() : micros_.front()->field_names();
}

at::Tensor Batch::in_batch_order(const std::vector<at::Tensor>& parts, bool by_row) const {
  // An empty batch, as of a rank without data, still gives a tensor that can be summed.
  if (parts.empty()) return at::empty({0}, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor ordered = at::index_select(
      at::cat(parts), 0, index_of(by_row ? row_order_ : segment_order_, parts.front().device()));
  note_made(ordered, by_row ? Unit::kToken : Unit::kSequence);
  return ordered;
}

void Batch::close() {
  for (const auto& micro : micros_) micro->close();
}

}  // namespace xrun
