#include "core/train/data_batch.h"

#include <ATen/ops/tensor.h>

#include "core/data/packs/data_set.h"

namespace xrun {
namespace {

template <typename T>
at::Tensor numbers(const DataSet& set, const std::string& name, const std::vector<int64_t>& rows,
                   at::ScalarType type) {
  std::vector<T> values;
  for (int64_t row : rows) values.push_back(static_cast<T>(set.extra_number(row, name)));
  return at::tensor(values, type);
}

}  // namespace

ExtraColumns::ExtraColumns(const DataSet& set) : set_(std::make_shared<const DataSet>(set)) {
  for (const ExtraColumn& column : set.extra_columns()) {
    const Kind number = column.is_whole ? Kind::kWhole : Kind::kReal;
    columns_.push_back({column.name, column.is_number ? number : Kind::kString});
  }
}

void ExtraColumns::add_to(Batch& batch) const {
  for (const auto& micro : batch.micros()) {
    const std::vector<int64_t>& rows = micro->pack().row_id;
    if (set_->kind() == RowKind::kFeedback) {
      std::vector<int64_t> labels;
      for (int64_t row : rows) labels.push_back(set_->label(row));
      micro->set_field("label", at::tensor(labels, at::kLong), false);
    }
    for (const auto& [name, kind] : columns_) {
      if (kind == Kind::kString) {
        std::vector<std::string> texts;
        for (int64_t row : rows) texts.push_back(set_->extra_string(row, name));
        micro->set_strings(name, std::move(texts));
      } else if (kind == Kind::kWhole) {
        micro->set_field(name, numbers<int64_t>(*set_, name, rows, at::kLong), false);
      } else {
        micro->set_field(name, numbers<float>(*set_, name, rows, at::kFloat), false);
      }
    }
  }
}

Unit unit_of_rows(RowKind kind) {
  return kind == RowKind::kPreference ? Unit::kPair : Unit::kToken;
}

std::shared_ptr<Batch> data_batch(const DataSet& set, const ExtraColumns& extra,
                                  const std::vector<int64_t>& units, int64_t max_tokens,
                                  BatchInfo info) {
  info.unit = unit_of_rows(set.kind());
  info.max_tokens = max_tokens;
  info.data_key = set.fingerprint();
  if (set.window_length() == 0) {  // a window's segments are parts of rows
    info.canonical_pack = [set](int64_t row, int64_t tokens) {
      return set.canonical_pack(row, tokens);
    };
  }
  info.row_name = [set](int64_t row) { return set.location(row); };
  auto batch = std::make_shared<Batch>(std::move(info), set.pack(units, max_tokens));
  extra.add_to(*batch);
  return batch;
}

std::shared_ptr<Batch> data_batch(const DataSet& set, const std::vector<int64_t>& units,
                                  int64_t max_tokens, BatchInfo info) {
  return data_batch(set, ExtraColumns(set), units, max_tokens, std::move(info));
}

}  // namespace xrun
