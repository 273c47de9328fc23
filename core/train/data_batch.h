#pragma once
// Batches of the rows of a data set.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/data/rows/row.h"
#include "core/train/batch.h"

namespace xrun {

class DataSet;

// The extra columns of a set as fields of its batches: strings as they are, numbers as int64 if
// every row of the whole set (both sides of a split) has a whole number, else as float32. Looks at
// every row once; keep it as long as the set is used.
class ExtraColumns {
 public:
  explicit ExtraColumns(const DataSet& set);
  // Adds the columns, and the label of feedback rows.
  void add_to(Batch& batch) const;

 private:
  enum class Kind { kString, kWhole, kReal };
  struct Column {
    std::string name;
    Kind kind;
  };
  std::shared_ptr<const DataSet> set_;
  std::vector<Column> columns_;
};

// Returns the unit of a plain loss tensor over rows of a kind: pairs for preferences, else tokens.
Unit unit_of_rows(RowKind kind);

// Packs units of a set (rows, or windows of text) into a batch whose order is that of `units`.
// Fills info's unit, max_tokens, data_key and row_name; extra columns become fields, and the label
// of feedback rows. Throws Error that names a row that is longer than max_tokens.
std::shared_ptr<Batch> data_batch(const DataSet& set, const ExtraColumns& extra,
                                  const std::vector<int64_t>& units, int64_t max_tokens,
                                  BatchInfo info = {});
// The same for a single batch.
std::shared_ptr<Batch> data_batch(const DataSet& set, const std::vector<int64_t>& units,
                                  int64_t max_tokens, BatchInfo info = {});

}  // namespace xrun
