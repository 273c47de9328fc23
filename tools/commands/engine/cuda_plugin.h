#pragma once
// The CUDA forms of our ops, in a separate library that is loaded on demand.

#include <filesystem>

namespace xrun {

// Returns the path of libxrun_cuda.so beside the executable; it need not exist.
std::filesystem::path cuda_plugin_path();

// Loads libxrun_cuda.so from the executable's folder. LibTorch caches whether it has CUDA, so call
// this before anything else of LibTorch. Throws UsageError with the fix if there is no driver or
// GPU, or if the library was not built or cannot be loaded.
void load_cuda_plugin();

}  // namespace xrun
