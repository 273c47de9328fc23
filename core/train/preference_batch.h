#pragma once
// Batches of preference pairs.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/train/batch.h"

namespace xrun {

class PreferenceSet;

// The kept columns of a set as fields of its batches: strings as they are, numbers as int64 if
// every row of the whole set (both sides of a split) has a whole number, else as float32. Looks at
// every row once; keep it as long as the set is used.
class KeptColumns {
 public:
  explicit KeptColumns(const PreferenceSet& set);
  void add_to(Batch& batch) const;

 private:
  enum class Kind { kString, kWhole, kReal };
  struct Column {
    std::string name;
    Kind kind;
  };
  std::shared_ptr<const PreferenceSet> set_;
  std::vector<Column> columns_;
};

// Packs rows of a set into a batch whose order is that of `rows`. Fills info's unit, data_key and
// row_name; kept columns become fields. Throws Error that names a row that is longer than
// max_tokens.
std::shared_ptr<Batch> preference_batch(const PreferenceSet& set, const KeptColumns& kept,
                                        const std::vector<int64_t>& rows, int64_t max_tokens,
                                        BatchInfo info = {});
// The same for a single batch.
std::shared_ptr<Batch> preference_batch(const PreferenceSet& set, const std::vector<int64_t>& rows,
                                        int64_t max_tokens, BatchInfo info = {});

}  // namespace xrun
