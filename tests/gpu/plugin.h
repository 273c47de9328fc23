#pragma once
// The CUDA plug-in in a test's process.

namespace xrun {

// Loads libxrun_cuda.so; null where there is no driver or no GPU, and the test then skips itself. A
// plug-in that was built and does not load fails the test.
void* cuda_plugin();

}  // namespace xrun
