#pragma once
// A folder of a run that was named in place of a model's: what to name, or how to make it.

#include <filesystem>
#include <string>

namespace xrun {

// Returns where the model of a run is, or the command that exports it from the last save without
// training, if `dir` is the folder of a run, its hf folder, its checkpoints or one of them; "" for
// any other folder. Reads run.json; other files only by their names.
std::string run_folder_text(const std::filesystem::path& dir);

}  // namespace xrun
