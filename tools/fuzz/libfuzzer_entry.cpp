// What libFuzzer calls; compiled once a target, with XRUN_FUZZ_TARGET as its function.

#include <cstddef>
#include <cstdint>

#include "tools/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xrun::XRUN_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
