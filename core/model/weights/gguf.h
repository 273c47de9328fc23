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

// Typed access to the keys of a file that begin with `prefix` ("llama."); the file outlives it.
// Every function takes the rest of the key. Throws Error that names file and key if the value has
// another type, or is absent where no `otherwise` is given.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string prefix);

  const std::string& where() const { return where_; }  // the file's path, for messages
  const Json* find(const std::string& key) const;      // null if absent
  std::string string(const std::string& key) const;
  // An array whose elements are of one kind.
  const Json::Array& array(const std::string& key, Json::Kind kind) const;
  bool boolean(const std::string& key, bool otherwise) const;
  // An id below `vocab`, or -1 where the key is absent.
  int64_t id(const std::string& key, int64_t vocab) const;
  int64_t size(const std::string& key) const;  // from 1 to INT32_MAX
  int64_t size(const std::string& key, int64_t otherwise) const;
  // A positive float32 as the shortest decimal that reads back as the same float32: 1e-05, not
  // 9.99...e-06.
  double number(const std::string& key, double otherwise) const;

 private:
  const GgufFile& file_;
  std::string prefix_, where_;
};

}  // namespace xrun
