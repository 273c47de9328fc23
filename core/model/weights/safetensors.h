#pragma once
// Safetensors files, single and sharded, as hostile input and as durable output.
// Format: huggingface/safetensors, safetensors/src/tensor.rs.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mapped_file.h"

namespace xrun {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// One tensor of a file. Offsets count from the first byte after the header.
struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

// One open file. Opening checks the whole header: its size, dtypes, shapes, and that the data
// ranges tile the rest of the file; a truncated or altered file throws Error that names it. Reads
// F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL. Reading is thread-safe.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // in file order
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool has(std::string_view name) const;
  // Throws Error that suggests the nearest name if there is no such tensor.
  const SafetensorsEntry& entry(std::string_view name) const;
  // Returns a copy in 64-byte aligned storage, so that later changes of the file have no effect.
  at::Tensor read(std::string_view name) const;
  // Returns a copy of elements [begin, begin + size) of a tensor, flat. Throws Error if it has
  // fewer.
  at::Tensor read_range(std::string_view name, int64_t begin, int64_t size) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  uint64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string, std::string> metadata_;
};

// The weights of a Hugging Face folder: model.safetensors, or the shards that the weight_map of
// model.safetensors.index.json names. Throws Error if there is neither, if a shard's name leaves
// the folder, or if the index and the shards disagree.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& dir);

  std::vector<std::string> names() const;  // sorted
  bool has(std::string_view name) const { return file_of_.find(name) != file_of_.end(); }
  const SafetensorsEntry& entry(std::string_view name) const { return file(name).entry(name); }
  at::Tensor read(std::string_view name) const { return file(name).read(name); }
  at::Tensor read_range(std::string_view name, int64_t begin, int64_t size) const {
    return file(name).read_range(name, begin, size);
  }

 private:
  // Throws Error if no file has the tensor.
  const SafetensorsFile& file(std::string_view name) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> file_of_;
};

// Writes one file: header padded to 8 bytes, larger element types first, then by name, as the
// reference writer does; the same tensors give the same bytes. The data is synced; renaming a
// temporary file is up to the caller. Throws Error on a repeated name or a full disk.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

// The layout of a file that write_safetensors would write for tensors of these names, types and
// shapes.
struct SafetensorsLayout {
  std::string head;             // all bytes before the data
  std::vector<uint64_t> begin;  // of each given tensor's data, from the start of the file
  std::vector<size_t> order;    // the given tensors in the order of the file
  uint64_t bytes = 0;           // of the file
};
// Offsets of the entries are ignored. Throws Error that names the path on a repeated name.
SafetensorsLayout safetensors_layout(const std::filesystem::path& path,
                                     const std::vector<SafetensorsEntry>& tensors,
                                     const std::map<std::string, std::string>& metadata = {});

// A tensor that `read` makes when it is written, so that only one is in memory.
struct TensorReader {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  std::function<at::Tensor()> read;
};
// Writes tensors that are read one at a time, in the order of the file.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorReader>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

// Returns the format's name of a type ("BF16"). Throws Error if it has none.
std::string safetensors_dtype_name(at::ScalarType dtype);

}  // namespace xrun
