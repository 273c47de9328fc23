#pragma once
// The download cache of Hugging Face, and the folders of models in it.

#include <filesystem>
#include <vector>

namespace xrun {

// Returns the download cache of transformers and huggingface_hub, which need not exist; "" if no
// variable says where it is.
std::filesystem::path hugging_face_hub();

// Returns the folder hub/models--ORG--NAME of every model, listed at the first call. A process that
// is limited after that may read these and nothing else of the hub, which may hold private data
// sets.
const std::vector<std::filesystem::path>& hub_models();

}  // namespace xrun
