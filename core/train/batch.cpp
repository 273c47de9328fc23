// A permutation brings what micro-batches give, concatenated, into the order of the step's stream.

#include "core/train/batch.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/model/ops/device.h"

namespace xrun {
namespace {

// Where a segment lies: its key in the stream, its place in the concatenation, its loss rows there.
struct Place {
  int64_t key;
  int64_t segment;
  int64_t row_begin, row_end;
};

int64_t stream_key(const PackedBatch& pack, size_t s) {
  const int64_t pair = pack.pair_id[s];
  return pair < 0 ? pack.sample_id[s] : 2 * pair + (pack.side[s] < 0 ? 1 : 0);
}

std::vector<Place> find_places(const std::vector<std::shared_ptr<MicroBatch>>& micros) {
  std::vector<Place> places;
  int64_t row = 0;
  for (const auto& micro : micros) {
    const PackedBatch& pack = micro->pack();
    size_t r = 0;
    for (size_t s = 0; s < static_cast<size_t>(pack.segment_count()); ++s) {
      const size_t first = r;
      while (r < pack.rows.segment.size() && static_cast<size_t>(pack.rows.segment[r]) == s) ++r;
      places.push_back({stream_key(pack, s), static_cast<int64_t>(places.size()),
                        row + static_cast<int64_t>(first), row + static_cast<int64_t>(r)});
    }
    row += pack.rows.size();
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.key < b.key; });
  for (size_t i = 1; i < places.size(); ++i) {
    XRUN_CHECK(places[i].key != places[i - 1].key,
               "segment {} of a batch stands in it twice: pair_id and sample_id must be unique in "
               "a step",
               places[i].key);
  }
  return places;
}

// Tells micro-batches of groups whose segments lie in several of them.
void note_split_groups(const std::vector<std::shared_ptr<MicroBatch>>& micros) {
  struct Seen {
    size_t micro;
    int64_t segment;
  };
  std::map<int64_t, Seen> first;
  for (size_t m = 0; m < micros.size(); ++m) {
    const std::vector<int64_t>& groups = micros[m]->pack().group_id;
    for (size_t s = 0; s < groups.size(); ++s) {
      const auto place = static_cast<int64_t>(s);
      const Seen seen = first.emplace(groups[s], Seen{m, place}).first->second;
      if (seen.micro == m || groups[s] < 0) continue;
      micros[m]->note_split_group(place);
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
  note_split_groups(micros_);
  for (const Place& place : find_places(micros_)) {
    segment_order_.push_back(place.segment);
    for (int64_t r = place.row_begin; r < place.row_end; ++r) row_order_.push_back(r);
  }
}

int64_t Batch::token_count() const {
  int64_t tokens = 0;
  for (const auto& micro : micros_) tokens += micro->token_count();
  return tokens;
}

void Batch::set_field(const std::string& name, const at::Tensor& value) {
  static const std::vector<std::string> own = MicroBatch::own_field_names();
  XRUN_CHECK(std::find(own.begin(), own.end(), name) == own.end(),
             "batch.{} belongs to the data and cannot be assigned; choose another name", name);
  int64_t pairs = 0;
  for (const auto& micro : micros_) pairs += micro->pair_count();
  const bool one_dimension = value.dim() == 1;
  const int64_t length = one_dimension ? value.size(0) : -1;
  // A pair's value goes to both of its sides, which are neighbours in batch order.
  const bool by_pair = pairs > 0 && length == pairs && 2 * pairs == size();
  const bool by_segment = length == size() || by_pair;
  XRUN_CHECK(one_dimension && (by_segment || length == row_count()),
             "batch.{} has shape [{}], wanted [{}] (one per sequence){} or [{}] (one per trained "
             "token)",
             name, fmt::join(value.sizes(), ", "), size(),
             pairs > 0 ? fmt::format(", [{}] (one per pair)", pairs) : std::string(), row_count());
  const at::Tensor given = value.detach();
  at::Tensor ordered = by_pair ? given.repeat_interleave(2) : given;
  const auto& order = by_segment ? segment_order_ : row_order_;
  ordered = at::index_select(ordered, 0, index_of(inverse(order), ordered.device()));
  int64_t begin = 0;
  for (const auto& micro : micros_) {
    const int64_t count = by_segment ? micro->segment_count() : micro->row_count();
    micro->set_field(name, ordered.slice(0, begin, begin + count), !by_segment);
    begin += count;
  }
  assigned_[name] = given;
}

at::Tensor Batch::field(std::string_view name) const {
  if (auto found = assigned_.find(name); found != assigned_.end()) return found->second;
  XRUN_CHECK(!micros_.empty(), "this batch is empty: it has no field \"{}\"", name);
  std::vector<at::Tensor> parts;
  bool by_row = false;
  for (const auto& micro : micros_) parts.push_back(micro->field(name, &by_row));
  return in_batch_order(parts, by_row);
}

bool Batch::has_field(std::string_view name) const {
  const std::vector<std::string> names = field_names();
  return std::binary_search(names.begin(), names.end(), name);
}

std::optional<std::vector<std::string>> Batch::strings(std::string_view name) const {
  std::vector<std::string> packed;
  for (const auto& micro : micros_) {
    const std::vector<std::string>* values = micro->strings(name);
    if (values == nullptr) return std::nullopt;
    packed.insert(packed.end(), values->begin(), values->end());
  }
  if (packed.empty()) return std::nullopt;
  std::vector<std::string> out;
  for (int64_t place : segment_order_) out.push_back(packed[static_cast<size_t>(place)]);
  return out;
}

std::vector<std::string> Batch::field_names() const {
  return micros_.empty() ? std::vector<std::string>() : micros_.front()->field_names();
}

at::Tensor Batch::in_batch_order(const std::vector<at::Tensor>& parts, bool by_row) const {
  if (parts.empty()) return at::empty({0}, at::TensorOptions().dtype(at::kFloat));
  return at::index_select(at::cat(parts), 0,
                          index_of(by_row ? row_order_ : segment_order_, parts.front().device()));
}

void Batch::close() {
  for (const auto& micro : micros_) micro->close();
}

}  // namespace xrun
