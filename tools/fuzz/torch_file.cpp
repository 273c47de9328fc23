// Opens a file of torch.save: an Error, or all elements of its tensors can be read.
//
// After a first byte 'z' the input is a whole file. Else it is the pickle of a good archive whose
// storages 0 and 1 have 64 bytes, so that the parser behind the checksums is reached.

#include "core/distill/torch_file.h"

#include "core/base/error.h"
#include "tools/fuzz/archive_of.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

void read_tensors(const TorchFile& file) {
  if (file.kind(file.root()) != TorchKind::kDict) return;
  for (const TorchFile::ValueId value : file.items(file.root())) {
    if (file.kind(value) != TorchKind::kTensor) continue;
    const TorchTensor& tensor = file.as_tensor(value);
    size_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= static_cast<size_t>(size);
    size_t read = 0;
    try {
      read = torch_floats(tensor, "floats").size();
    } catch (const Error&) {
      if (tensor.type == TorchType::kBool) continue;
      read = torch_integers(tensor, "integers").size();
    }
    fuzz_check(read == elements, "a tensor has more or fewer elements than its shape says");
  }
  file.find(file.root(), "indices");
}

}  // namespace

void fuzz_torch_file(std::string_view input) {
  if (input.empty()) return;
  std::string bytes(input.substr(1));
  if (input[0] != 'z') {
    bytes = archive_of({{"a/data.pkl", bytes},
                        {"a/byteorder", "little"},
                        {"a/data/0", std::string(64, '\1')},
                        {"a/data/1", std::string(64, '\2')}});
  }
  try {
    read_tensors(TorchFile(std::move(bytes), "fuzzed.pt"));
  } catch (const Error&) {
  }
}

}  // namespace xrun
