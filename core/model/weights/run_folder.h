#pragma once
// The hint for a user who named a folder of a run instead of a model.

#include <filesystem>
#include <string>

namespace xrun {

// Returns where the model of a run is, or the command that exports it from the last save without
// training, if `dir` is the folder of a run, its hf folder, its checkpoints or one of them; "" for
// any other folder. Reads run.json; other files only by their names.
std::string run_folder_text(const std::filesystem::path& dir);

}  // namespace xrun
