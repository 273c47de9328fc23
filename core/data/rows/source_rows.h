#pragma once
// The row types of recipes: rows of a kind, through the recipe's own functions, to tokens.

#include <memory>

#include "core/data/rows/row_encoder.h"
#include "core/data/rows/row_transform.h"
#include "core/data/rows/row_type.h"

namespace xrun {

// Each worker parses a row, runs its own transform (there may be none) over it and encodes it; a
// filtered row is refused with the reason "filter". What the parts refer to must outlive this.
class SourceRows : public RowType {
 public:
  SourceRows(RowKind kind, EncoderParts parts, std::shared_ptr<const RowTransformSource> transform);

  RowSchema schema() const override;
  std::unique_ptr<RowWorker> make_worker() const override;

 private:
  RowKind kind_;
  EncoderParts parts_;
  std::shared_ptr<const RowTransformSource> transform_;
};

}  // namespace xrun
