#pragma once
// Batches of the rows of a data set, and batches that mismatch their prompts and answers.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/data/rows/row.h"
#include "core/train/batches/batch.h"

namespace xrun {

class DataSet;

// The extra columns of a set as fields of its batches: strings, int64 if every row of the whole set
// (both sides of a split) has a whole number, else float32. The constructor reads every row; keep
// the object as long as the set is used.
class ExtraColumns {
 public:
  explicit ExtraColumns(const DataSet& set);
  // Adds the columns, and the label of feedback rows.
  void add_to(Batch& batch) const;

 private:
  enum class FieldType { kString, kWhole, kReal };
  struct ExtraField {
    std::string name;
    FieldType type;
  };
  std::shared_ptr<const DataSet> set_;
  std::vector<ExtraField> fields_;
};

// Returns the unit of a plain loss tensor: pairs for preference rows, else tokens.
Unit unit_of_rows(RowKind kind);

// The value of max_tokens that sets no limit.
constexpr int64_t kNoTokenLimit = std::numeric_limits<int32_t>::max();

// Packs units of a set (rows, or windows of text) into a batch whose order is that of `units`.
// Fills info's unit, max_tokens, data_key and row_name; extra columns and the label of feedback
// rows become fields. Throws Error that names a row longer than max_tokens.
std::shared_ptr<Batch> data_batch(const DataSet& set, const ExtraColumns& extra,
                                  const std::vector<int64_t>& units, int64_t max_tokens,
                                  BatchInfo info = {});
// Packs units as above for a caller that packs once, and so keeps no ExtraColumns.
std::shared_ptr<Batch> data_batch(const DataSet& set, const std::vector<int64_t>& units,
                                  int64_t max_tokens, BatchInfo info = {});

// Returns a batch that gives each prompt the answer of another sequence. Sequence i has the prompt
// of sequence i (its tokens before the first trained one) and the answer of sequence i - 1 (its
// tokens from there on, trained as they were); sequence 0 has the answer of the last one. The order
// is batch order. Each sequence has the weight of its prompt's row, and row id -1, so that nothing
// is cached. An answer is cut at its end where the sequence would be longer than max_tokens or the
// data's max_length. Throws Error for pairs and for a batch of fewer than two sequences.
std::shared_ptr<Batch> mismatched_batch(const Batch& batch);

}  // namespace xrun
