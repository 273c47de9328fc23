#pragma once
// What a resume says when its data is not the data of the saved run.

#include <string>

#include "core/base/json.h"

namespace xrun {

// Compares two results of DataSet::key_documents(): that of the saved run and today's.
// Returns the fields in which they differ, "data[2].max_length: 512 -> 1024", one a line without a
// last newline; "" if nothing differs. Long values are cut to where they part.
std::string key_difference(const Json& saved, const Json& now);

}  // namespace xrun
