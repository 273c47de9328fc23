#pragma once
// The CUDA forms of our ops, in a library of their own that is loaded where it is asked for.

#include <filesystem>

namespace xrun {

// libxrun_cuda.so beside the executable; it need not exist.
std::filesystem::path cuda_plugin_path();

// Loads libxrun_cuda.so from the executable's folder. LibTorch keeps the first answer to whether it
// has CUDA, so this runs before anything else of it does. Throws UsageError, with the way out,
// where there is no driver or no GPU, where the library was not built or where it cannot be loaded.
void load_cuda_plugin();

}  // namespace xrun
