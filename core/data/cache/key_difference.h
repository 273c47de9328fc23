#pragma once
// The difference that a resume reports if its data is not the data of the saved run.

#include <string>

#include "core/base/json.h"

namespace xrun {

// Compares two results of DataSet::key_documents(), that of the saved run and the present one.
// Returns the fields that differ, "data[2].max_length: 512 -> 1024", one per line without a last
// newline; "" if none does. Long values are cut to the text around their first difference.
std::string key_difference(const Json& saved, const Json& now);

}  // namespace xrun
