#include "core/train/preference_batch.h"

#include "core/data/preference_set.h"

namespace xrun {
namespace {

void add_kept_columns(const PreferenceSet& set, PackedBatch& pack) {
  for (const PreferenceSet::Kept& column : set.kept_columns()) {
    if (!column.is_number || pack.segment_streams.count(column.name) != 0) continue;
    std::vector<float>& values = pack.segment_streams[column.name];
    for (int64_t row : pack.row_id) {
      values.push_back(static_cast<float>(set.kept_number(row, column.name)));
    }
  }
}

}  // namespace

std::shared_ptr<Batch> preference_batch(const PreferenceSet& set, const std::vector<int64_t>& rows,
                                        int64_t max_tokens, BatchInfo info) {
  info.unit = Unit::kPair;
  info.data_key = set.fingerprint();
  info.row_name = [set](int64_t row) { return set.place(row); };
  std::vector<PackedBatch> packs = set.pack(rows, max_tokens);
  for (PackedBatch& pack : packs) add_kept_columns(set, pack);
  return std::make_shared<Batch>(std::move(info), std::move(packs));
}

}  // namespace xrun
