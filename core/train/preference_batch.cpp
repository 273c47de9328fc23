#include "core/train/preference_batch.h"

#include <ATen/ops/tensor.h>

#include <cmath>

#include "core/data/preference_set.h"

namespace xrun {
namespace {

constexpr double kExactWhole = 9007199254740992.0;  // 2^53: what the cache's doubles hold exactly

bool all_whole(const PreferenceSet& set, const std::string& name) {
  for (int64_t row = 0; row < set.total_rows(); ++row) {
    const double value = set.kept_number(row, name);
    if (!(std::floor(value) == value && std::fabs(value) <= kExactWhole)) return false;
  }
  return true;
}

template <typename T>
at::Tensor numbers(const PreferenceSet& set, const std::string& name,
                   const std::vector<int64_t>& rows, at::ScalarType type) {
  std::vector<T> values;
  for (int64_t row : rows) values.push_back(static_cast<T>(set.kept_number(row, name)));
  return at::tensor(values, type);
}

}  // namespace

KeptColumns::KeptColumns(const PreferenceSet& set)
    : set_(std::make_shared<const PreferenceSet>(set)) {
  for (const PreferenceSet::Kept& column : set.kept_columns()) {
    const Kind number =
        column.is_number && all_whole(set, column.name) ? Kind::kWhole : Kind::kReal;
    columns_.push_back({column.name, column.is_number ? number : Kind::kString});
  }
}

void KeptColumns::add_to(Batch& batch) const {
  for (const auto& micro : batch.micros()) {
    const std::vector<int64_t>& rows = micro->pack().row_id;
    for (const auto& [name, kind] : columns_) {
      if (kind == Kind::kString) {
        std::vector<std::string> texts;
        for (int64_t row : rows) texts.push_back(set_->kept_string(row, name));
        micro->set_strings(name, std::move(texts));
      } else if (kind == Kind::kWhole) {
        micro->set_field(name, numbers<int64_t>(*set_, name, rows, at::kLong), false);
      } else {
        micro->set_field(name, numbers<float>(*set_, name, rows, at::kFloat), false);
      }
    }
  }
}

std::shared_ptr<Batch> preference_batch(const PreferenceSet& set, const KeptColumns& kept,
                                        const std::vector<int64_t>& rows, int64_t max_tokens,
                                        BatchInfo info) {
  info.unit = Unit::kPair;
  info.data_key = set.fingerprint();
  info.row_name = [set](int64_t row) { return set.place(row); };
  auto batch = std::make_shared<Batch>(std::move(info), set.pack(rows, max_tokens));
  kept.add_to(*batch);
  return batch;
}

std::shared_ptr<Batch> preference_batch(const PreferenceSet& set, const std::vector<int64_t>& rows,
                                        int64_t max_tokens, BatchInfo info) {
  return preference_batch(set, KeptColumns(set), rows, max_tokens, std::move(info));
}

}  // namespace xrun
