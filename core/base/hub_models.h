#pragma once
// The download cache of Hugging Face, and the folders of models in it.

#include <filesystem>
#include <vector>

namespace xrun {

// Returns the download cache of transformers and huggingface_hub, which need not exist; "" if no
// variable says where it is.
std::filesystem::path hugging_face_hub();

// Returns hub/models--ORG--NAME of every model, as they were at the first call: a process that is
// then limited may read these and nothing else of the hub, which can have private data sets.
const std::vector<std::filesystem::path>& hub_models();

}  // namespace xrun
