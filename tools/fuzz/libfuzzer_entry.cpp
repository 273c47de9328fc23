// libFuzzer's entry point, compiled once per target; XRUN_FUZZ_TARGET names its function.

#include <cstddef>
#include <cstdint>

#include "tools/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xrun::XRUN_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
