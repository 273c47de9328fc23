// A file of torch.save, or a pickle in a good archive, so that the parser after the checksums is
// reached: an Error, or tensors whose elements can all be read.
//
// The first byte says which: 'z' a whole file, anything else the pickle of an archive whose
// storages 0 and 1 have 64 bytes.

#include "core/distill/torch_file.h"

#include "core/base/error.h"
#include "core/base/zip_archive.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

template <class T>
void append_bytes(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

struct ArchiveMember {
  std::string name, data;
};

std::string archive_of(const std::vector<ArchiveMember>& members) {
  std::string out, directory;
  for (const ArchiveMember& member : members) {
    const auto at = static_cast<uint32_t>(out.size());
    std::string sizes;
    append_bytes(sizes, zip_crc32(member.data));
    append_bytes(sizes, static_cast<uint32_t>(member.data.size()));
    append_bytes(sizes, static_cast<uint32_t>(member.data.size()));
    append_bytes(sizes, static_cast<uint16_t>(member.name.size()));
    append_bytes(sizes, uint16_t{0});
    out += std::string("PK\3\4\0\0\0\0\0\0\0\0\0\0", 14) + sizes + member.name + member.data;
    directory += std::string("PK\1\2\0\0\0\0\0\0\0\0\0\0\0\0", 16) + sizes + std::string(10, '\0');
    append_bytes(directory, at);
    directory += member.name;
  }
  const auto begin = static_cast<uint32_t>(out.size());
  out += directory + std::string("PK\5\6\0\0\0\0", 8);
  append_bytes(out, static_cast<uint16_t>(members.size()));
  append_bytes(out, static_cast<uint16_t>(members.size()));
  append_bytes(out, static_cast<uint32_t>(directory.size()));
  append_bytes(out, begin);
  append_bytes(out, uint16_t{0});
  return out;
}

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
    fuzz_check(read == elements, "a tensor has other elements than its shape says");
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
