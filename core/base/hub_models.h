#pragma once
// The folders of models in the cache of Hugging Face.

#include <filesystem>
#include <vector>

namespace xrun {

// Returns hub/models--ORG--NAME of every model, as they were at the first call: a process that is
// then limited may read these and nothing else of the hub, which can have private data sets.
const std::vector<std::filesystem::path>& hub_models();

}  // namespace xrun
