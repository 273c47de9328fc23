// Loss rows are in the order of the pack's tokens, so the rows of a segment are adjacent and the
// view of everything needs no copy.

#include "core/train/batches/micro_batch.h"

#include <ATen/ops/ones_like.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/train/batches/micro_forwards.h"

namespace xrun {

namespace {

constexpr const char* kOwnFields[] = {"group",  "length", "pair",  "row",
                                      "source", "tokens", "weight"};

}  // namespace

MicroBatch::MicroBatch(PackedBatch pack, std::shared_ptr<const BatchInfo> info, int64_t index)
    : pack_(std::move(pack)),
      info_(std::move(info)),
      index_(index),
      forwards_(std::make_unique<MicroForwards>(*this)) {
  // Once per micro-batch: every model that scores it needs the same targets.
  row_target_ = on_device(int64_tensor(pack_.rows.target), device());
  for (const auto& [name, values] : pack_.segment_streams)
    set_field(name, float_tensor(values), false);
  for (const auto& [name, values] : pack_.row_streams) set_field(name, float_tensor(values), true);
}

MicroBatch::~MicroBatch() = default;

int64_t MicroBatch::segment_count() const { return pack_.segment_count(); }
int64_t MicroBatch::row_count() const { return pack_.rows.size(); }
int64_t MicroBatch::pair_count() const { return pack_.pair_count(); }
int64_t MicroBatch::token_count() const { return pack_.token_count(); }

std::shared_ptr<const ViewRows> MicroBatch::make_rows(std::string name,
                                                      std::vector<int64_t> segments) const {
  auto view = std::make_shared<ViewRows>();
  const auto n = static_cast<size_t>(pack_.segment_count());
  // Loss rows of segment s are [begin[s], begin[s + 1]).
  std::vector<int64_t> begin(n + 1, 0);
  // Counting sort by segment: loss rows are in token order already, so the ranges are contiguous.
  for (int32_t s : pack_.rows.segment) ++begin[static_cast<size_t>(s) + 1];
  for (size_t s = 0; s < n; ++s) begin[s + 1] += begin[s];
  std::vector<int64_t> row, row_segment, length;
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto s = static_cast<size_t>(segments[i]);
    for (int64_t r = begin[s]; r < begin[s + 1]; ++r) {
      row.push_back(r);
      row_segment.push_back(static_cast<int64_t>(i));
    }
    // 0 for a segment without loss rows, whose log-prob is then 0.
    length.push_back(begin[s + 1] - begin[s]);
  }
  view->name = std::move(name);
  // If true, a view skips its index_select; so the order must match, too.
  view->everything = segments.size() == n && std::is_sorted(segments.begin(), segments.end());
  view->segment = on_device(int64_tensor(segments), device());
  view->row = on_device(int64_tensor(row), device());
  view->row_segment = on_device(int64_tensor(row_segment), device());
  view->length = on_device(int64_tensor(length), device());
  view->segments = std::move(segments);
  view->loss_rows = std::move(row);
  return view;
}

View MicroBatch::all() {
  // Kept, so that all calls return the same rows: note_scored compares their addresses.
  std::shared_ptr<const ViewRows>& rows = views_["all"];
  if (!rows) {
    std::vector<int64_t> segments(static_cast<size_t>(segment_count()));
    for (size_t s = 0; s < segments.size(); ++s) segments[s] = static_cast<int64_t>(s);
    rows = make_rows("all", std::move(segments));
  }
  return View(shared_from_this(), rows);
}

View MicroBatch::side_view(const char* name, int8_t side) {
  std::shared_ptr<const ViewRows>& rows = views_[name];
  if (!rows) {
    XRUN_CHECK(unit() == Unit::kPair || pair_count() > 0,
               "there is no {} side here: this batch is not made of pairs", name);
    std::vector<int64_t> segments;
    for (size_t s = 0; s < pack_.side.size(); ++s) {
      if (pack_.side[s] == side) segments.push_back(static_cast<int64_t>(s));
    }
    rows = make_rows(name, std::move(segments));
  }
  return View(shared_from_this(), rows);
}

View MicroBatch::chosen() { return side_view("chosen", 1); }
View MicroBatch::rejected() { return side_view("rejected", -1); }

at::Tensor MicroBatch::hidden(Model& model) { return forwards_->hidden(model); }

at::Tensor MicroBatch::token_logprob(Model& model, int64_t head_mb) {
  return forwards_->token_logprob(model, head_mb);
}

bool MicroBatch::takes_token_logprob(Model& model) { return forwards_->takes_token_logprob(model); }

void MicroBatch::set_token_logprob(Model& model, at::Tensor logprob) {
  forwards_->set_token_logprob(model, std::move(logprob));
}

void MicroBatch::retain_logprob_gradients() { forwards_->retain_logprob_gradients(); }

std::vector<at::Tensor> MicroBatch::logprob_gradients() const {
  return forwards_->logprob_gradients();
}

const ComputedPack& MicroBatch::computed(const Model& model) { return forwards_->computed(model); }

void MicroBatch::begin_with(std::shared_ptr<HeldPrefix> prefix) {
  forwards_->begin_with(std::move(prefix));
}

int64_t MicroBatch::take_head_mb(int64_t head_mb, int64_t rows, int64_t vocab) {
  return forwards_->take_head_mb(head_mb, rows, vocab);
}

void MicroBatch::replay(const Model& model,
                        std::vector<std::shared_ptr<const TokenRoutes>> routes) {
  forwards_->replay(model, std::move(routes));
}

std::shared_ptr<const std::vector<at::Tensor>> MicroBatch::replayed(const Model& model) {
  return forwards_->replayed(model);
}

void MicroBatch::free_hidden() { forwards_->free_hidden(); }

const RouterRecord* MicroBatch::router(const Model& model) const {
  return forwards_->router(model);
}

void MicroBatch::close() {
  forwards_->clear();
  scored_.clear();
  read_.clear();
  corrected_ = reinforced_ = false;
  // Open views compare it: using one after the step is an error instead of a read of freed memory.
  ++generation_;
}

bool MicroBatch::has_unit(Unit unit) const {
  switch (unit) {
    case Unit::kToken:
    // Always: a segment is a sequence, and its trained tokens are rows.
    case Unit::kSequence: return true;
    case Unit::kPair: return info_->unit == Unit::kPair || pair_count() > 0;
    case Unit::kGroup:
      // A group that is not here whole has no complete sum, so it is not a unit here.
      return split_segment_ < 0 && std::none_of(pack_.group_id.begin(), pack_.group_id.end(),
                                                [](int64_t id) { return id < 0; });
    // A micro-batch without loss rows may have none of its batch's chunks; that is not an error.
    case Unit::kChunk: return !pack_.chunk.empty() || row_count() == 0;
  }
  return false;
}

void MicroBatch::throw_no_unit(Unit unit) const {
  XRUN_CHECK(unit != Unit::kPair, "a loss per pair, but this batch is not made of pairs");
  if (unit == Unit::kGroup && split_segment_ >= 0) {
    const int64_t row = pack_.row_id[static_cast<size_t>(split_segment_)];
    throw Error(
        fmt::format("a loss per group: the group of {} is split between micro-batches; raise "
                    "batch.max_tokens until a group fits, or return a loss per sequence",
                    row_name(row)));
  }
  throw Error(fmt::format("a loss per {}: this batch has none; it has {}tokens and sequences",
                          unit_name(unit), pair_count() > 0 ? "pairs, " : ""));
}

int64_t MicroBatch::unit_count(Unit unit) const {
  if (!has_unit(unit)) throw_no_unit(unit);
  switch (unit) {
    case Unit::kToken: return row_count();
    case Unit::kSequence: return segment_count();
    case Unit::kPair: return pair_count();
    case Unit::kGroup: return group_by(pack_.group_id).count();
    case Unit::kChunk: return group_by(pack_.chunk).count();
  }
  return 0;
}

at::Tensor MicroBatch::unit_weight(Unit unit) const {
  if (!has_unit(unit)) throw_no_unit(unit);
  const at::Tensor by_row = float_tensor(pack_.rows.weight),
                   by_segment = float_tensor(pack_.weight);
  if (unit == Unit::kToken) return by_row;
  if (unit == Unit::kSequence) return by_segment;
  if (unit == Unit::kChunk) {
    // Once, however many tokens it has: a tokenizer with shorter pieces would else weigh more.
    std::vector<float> weights;
    for (const int64_t segment : unit_segments(unit)) {
      weights.push_back(pack_.weight[static_cast<size_t>(segment)]);
    }
    return float_tensor(weights);
  }
  if (unit == Unit::kGroup) {
    // The mean: a group counts as one prompt however many rollouts it has.
    const Grouping groups = group_by(pack_.group_id);
    return groups.sum(by_segment).div(groups.sum(at::ones_like(by_segment)));
  }
  // Both sides of a pair have the weight of its row; it is read from the chosen one.
  std::vector<float> weights;
  for (size_t s = 0; s < pack_.side.size(); ++s) {
    // Chosen segments are in pair order, as the losses of an objective are.
    if (pack_.side[s] > 0) weights.push_back(pack_.weight[s]);
  }
  return float_tensor(weights);
}

std::vector<int64_t> MicroBatch::unit_segments(Unit unit) const {
  if (!has_unit(unit)) throw_no_unit(unit);
  std::vector<int64_t> segments;
  switch (unit) {
    case Unit::kToken: return {pack_.rows.segment.begin(), pack_.rows.segment.end()};
    case Unit::kGroup: return group_by(pack_.group_id).first;
    case Unit::kChunk:
      for (const int64_t row : group_by(pack_.chunk).first) {
        segments.push_back(pack_.rows.segment[static_cast<size_t>(row)]);
      }
      return segments;
    case Unit::kSequence:
    case Unit::kPair:
      for (int64_t s = 0; s < segment_count(); ++s) {
        // A pair is found by its chosen side.
        if (unit == Unit::kSequence || pack_.side[static_cast<size_t>(s)] > 0)
          segments.push_back(s);
      }
  }
  return segments;
}

int64_t MicroBatch::unit_row(Unit unit, int64_t i) const {
  auto at = static_cast<size_t>(i);
  if (unit == Unit::kGroup)
    return pack_.row_id[static_cast<size_t>(group_by(pack_.group_id).first[at])];
  // A chunk is named by the row of its first token.
  if (unit == Unit::kChunk) at = static_cast<size_t>(group_by(pack_.chunk).first[at]);
  if (unit == Unit::kToken || unit == Unit::kChunk) {
    return pack_.row_id[static_cast<size_t>(pack_.rows.segment[at])];
  }
  if (unit == Unit::kSequence) return pack_.row_id[at];
  int64_t pair = 0;
  for (size_t s = 0; s < pack_.side.size(); ++s) {
    // Pair i is the i-th chosen segment.
    if (pack_.side[s] > 0 && pair++ == i) return pack_.row_id[s];
  }
  return -1;
}

std::string MicroBatch::row_name(int64_t row) const {
  if (info_->row_name && row >= 0) return info_->row_name(row);
  return fmt::format("row {}", row);
}

void MicroBatch::set_field(const std::string& name, at::Tensor value, bool by_row,
                           double signed_scale) {
  // An assignment may change a column's type; one name must not have two values.
  strings_.erase(name);
  fields_[name] = {on_device(value, device()), by_row, signed_scale};
}

MicroBatch::SignedField MicroBatch::signed_field(const at::Tensor& value) const {
  for (const auto& [name, field] : fields_) {
    // By identity: an objective passes on the tensor that the view returned.
    if (field.value.is_same(value)) {
      return {field.signed_scale >= 0, field.by_row, field.signed_scale};
    }
  }
  return {};
}

void MicroBatch::set_strings(const std::string& name, std::vector<std::string> values) {
  strings_[name] = std::move(values);
}

const std::vector<std::string>* MicroBatch::strings(std::string_view name) const {
  const auto found = strings_.find(name);
  return found == strings_.end() ? nullptr : &found->second;
}

at::Tensor MicroBatch::field(std::string_view name, bool* by_row) const {
  // Own fields have one value per segment.
  *by_row = false;
  if (auto found = fields_.find(name); found != fields_.end()) {
    *by_row = found->second.by_row;
    return found->second.value;
  }
  // Own names come last but cannot be assigned (Batch::set_field), so they are never hidden.
  if (const at::Tensor own = own_field(name); own.defined()) return on_device(own, device());
  XRUN_CHECK(strings(name) == nullptr, "the field \"{}\" holds strings, not numbers", name);
  const std::string near = nearest_name(name, field_names());
  XRUN_CHECK(near.empty(), "this batch has no field \"{}\"; did you mean \"{}\"?", name, near);
  // Properties of the binding of a micro-batch.
  XRUN_CHECK(name != "chosen" && name != "rejected" && name != "all",
             "\"{}\" is a view that an objective gets, not a field of the batch", name);
  const std::string whole = own_field_beginning(name);
  throw MissingField(
      std::string(name),
      fmt::format("this batch has no field \"{}\"; {}assign it to the batch first", name,
                  whole.empty() ? "" : fmt::format("did you mean \"{}\"? else ", whole)));
}

at::Tensor MicroBatch::own_field(std::string_view name) const {
  if (name == "row") return int64_tensor(pack_.row_id);
  // Made at each call: objectives read few of them, and a pack is small.
  if (name == "pair") return int64_tensor(pack_.pair_id);
  if (name == "group") return int64_tensor(pack_.group_id);
  if (name == "source") return int64_tensor(pack_.source);
  if (name == "weight") return float_tensor(pack_.weight);
  if (name == "tokens") {
    const at::Tensor borders = int64_tensor(pack_.cu_seqlens);
    return borders.slice(0, 1).sub(borders.slice(0, 0, borders.size(0) - 1));
  }
  if (name == "length") {
    std::vector<int64_t> length(static_cast<size_t>(segment_count()), 0);
    for (int32_t s : pack_.rows.segment) ++length[static_cast<size_t>(s)];
    return int64_tensor(length);
  }
  return {};
}

std::vector<std::string> MicroBatch::own_field_names() {
  return {std::begin(kOwnFields), std::end(kOwnFields)};
}

std::string MicroBatch::own_field_beginning(std::string_view name) {
  for (const std::string_view own : kOwnFields) {
    if (name.size() >= 3 && own.starts_with(name)) return std::string(own);
  }
  return "";
}

std::vector<std::string> MicroBatch::field_names() const {
  std::vector<std::string> names = own_field_names();
  for (const auto& [name, field] : fields_) names.push_back(name);
  for (const auto& [name, values] : strings_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void MicroBatch::note_scored(const LogprobSource* source, const View& view,
                             const at::Tensor& token_logprob) {
  // An objective may ask for a view's log-probs several times; the step reports them once.
  const ViewRows* rows = &view.rows();
  // Linear: a step scores two or three views.
  for (const Scored& scored : scored_) {
    if (scored.source == source && scored.rows.get() == rows) return;
  }
  // Metrics must not hold the graph of the step.
  const at::Tensor values = token_logprob.detach();
  scored_.push_back({source, views_.at(rows->name), values, view.sum(values)});
}

}  // namespace xrun
