// Opens a file of weights: an Error, or all tensors can be read.
//
// After a first byte 's' the input is a safetensors file, else a GGUF file.

#include <ATen/core/Tensor.h>

#include "core/base/error.h"
#include "core/model/weights/gguf.h"
#include "core/model/weights/safetensors.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

void fuzz_model_files(std::string_view input) {
  if (input.empty()) return;
  const std::string path = fuzz_file("weights", input.substr(1)) + "/weights";
  try {
    if (input[0] == 's') {
      const SafetensorsFile file(path);
      for (const SafetensorsEntry& entry : file.entries()) file.read(entry.name);
    } else {
      const GgufFile file(path);
      for (const GgufTensor& tensor : file.tensors()) file.read(tensor);
    }
  } catch (const Error&) {
  }
}

}  // namespace xrun
