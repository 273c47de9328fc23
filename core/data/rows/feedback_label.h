#pragma once
// The label of a feedback row: true or 1 for a desirable answer, false or 0 for an undesirable one.

#include <cstdint>

#include "core/base/json.h"
#include "core/data/rows/row_fields.h"

namespace xrun {

// Returns 1 or 0. Throws RowRefusal "bad_label" if the column is absent or not a label, and
// RatingRefusal for any other number. The message about a word or a number proposes a map that
// turns it into a label.
int8_t feedback_label(const RowFields& fields, const Json& row);

}  // namespace xrun
