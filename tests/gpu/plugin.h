#pragma once
// The CUDA plug-in in a test's process.

namespace xrun {

// Loads libxrun_cuda.so. Null without a driver or GPU: the test then skips itself. A plug-in that
// was built but does not load fails the test.
void* cuda_plugin();

}  // namespace xrun
