// Wide elements come first, so that every tensor is aligned to its elements without padding.

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/model/weights/safetensors.h"

namespace xrun {

SafetensorsLayout safetensors_layout(const std::filesystem::path& path,
                                     const std::vector<SafetensorsEntry>& tensors,
                                     const std::map<std::string, std::string>& metadata) {
  SafetensorsLayout layout;
  std::set<std::string_view> seen;
  for (const SafetensorsEntry& t : tensors) {
    // __metadata__ is the header's own key.
    XRUN_CHECK(seen.insert(t.name).second && t.name != "__metadata__",
               "{}: two tensors to be written have the name '{}'", path.string(), t.name);
    layout.order.push_back(layout.order.size());
  }
  std::sort(layout.order.begin(), layout.order.end(), [&](size_t i, size_t j) {
    const auto &a = tensors[i], &b = tensors[j];
    const auto size_a = c10::elementSize(a.dtype), size_b = c10::elementSize(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  Json header = Json::object();
  if (!metadata.empty()) {
    Json items = Json::object();
    for (const auto& [key, value] : metadata) items.set(key, value);
    header.set("__metadata__", std::move(items));
  }
  int64_t at = 0;
  layout.begin.resize(tensors.size());
  for (const size_t i : layout.order) {
    const SafetensorsEntry& t = tensors[i];
    auto bytes = static_cast<int64_t>(c10::elementSize(t.dtype));
    Json shape = Json::array();
    for (const int64_t size : t.shape) {
      bytes *= size;
      shape.push_back(size);
    }
    header.set(t.name, Json(Json::Object{{"dtype", safetensors_dtype_name(t.dtype)},
                                         {"shape", std::move(shape)},
                                         {"data_offsets", Json(Json::Array{at, at + bytes})}}));
    layout.begin[i] = static_cast<uint64_t>(at);
    at += bytes;
  }
  std::string text = dump_json(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data are aligned
  const uint64_t header_bytes = text.size();
  layout.head.assign(reinterpret_cast<const char*>(&header_bytes), 8);
  layout.head += text;
  // Offsets in the header count from its end, those of the layout from the file's beginning.
  for (uint64_t& begin : layout.begin) begin += layout.head.size();
  layout.bytes = layout.head.size() + static_cast<uint64_t>(at);
  return layout;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorReader> readers;
  for (const NamedTensor& t : tensors) {
    readers.push_back(
        {t.name, t.tensor.scalar_type(), t.tensor.sizes().vec(), [&t] { return t.tensor; }});
  }
  write_safetensors(path, readers, metadata);
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorReader>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> entries;
  for (const TensorReader& t : tensors) entries.push_back({t.name, t.dtype, t.shape});
  const SafetensorsLayout layout = safetensors_layout(path, entries, metadata);
  FileWriter writer(path);
  writer.write(layout.head);
  for (const size_t i : layout.order) {
    // On the CPU and without strides, one tensor at a time.
    const at::Tensor data = tensors[i].read().detach().cpu().contiguous();
    XRUN_CHECK(
        data.scalar_type() == tensors[i].dtype && data.sizes() == at::IntArrayRef(tensors[i].shape),
        "{}: the tensor '{}' has changed since the file was laid out", path.string(),
        tensors[i].name);
    writer.write(data.const_data_ptr(), static_cast<uint64_t>(data.nbytes()));
  }
  writer.sync();
  writer.close();
}

}  // namespace xrun
