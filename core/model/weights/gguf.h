#pragma once
// GGUF files, versions 2 and 3, as hostile input.
// Format: ggml-org/ggml, docs/gguf.md.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/mapped_file.h"

namespace xrun {

// One tensor of a file.
struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost dimension first, as in PyTorch; the file has the reverse
  uint32_t format = 0;         // ggml's number of a format that gguf_blocks.h decodes
  uint64_t begin = 0, bytes = 0;  // from the first byte of the file
};

// One open file. Opening checks the whole header: counts and lengths against the bytes of the file,
// types, names, alignment, and that every tensor's range is inside the file and overlaps no
// other. A truncated or altered file throws Error "FILE: byte N: ..." that names the problem.
// Reading is thread-safe.
class GgufFile {
 public:
  explicit GgufFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  int64_t version() const { return version_; }
  // Metadata in file order. Unsigned values beyond int64 are numbers (double).
  const Json::Object& metadata() const { return metadata_; }
  // Returns the value of a key, or nullptr.
  const Json* find(std::string_view key) const;
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in file order
  // Returns the tensor of a name, or nullptr.
  const GgufTensor* find_tensor(std::string_view name) const;
  // Returns the values as a new float32 tensor in 64-byte aligned storage.
  at::Tensor read(const GgufTensor& tensor) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  int64_t version_ = 0;
  Json::Object metadata_;
  std::map<std::string, size_t, std::less<>> metadata_index_, tensor_index_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace xrun
