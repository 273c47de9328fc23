#pragma once
// The names that recipes use for element types, layouts, memory formats and devices: plain strings.

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// "bf16", "f32", "i64", ...: short names, one per type.
std::string_view short_dtype_name(at::ScalarType type);
std::string_view layout_name(at::Layout layout);

// Reads a short name or PyTorch's ("bfloat16", "float32", "long"); nullopt for any other name.
std::optional<at::ScalarType> dtype_of(std::string_view name);
std::optional<at::Layout> layout_of(std::string_view name);
std::optional<at::MemoryFormat> memory_format_of(std::string_view name);
// "cpu", "cuda", "cuda:1", "meta".
std::optional<at::Device> device_of(std::string_view name);
// Throws Error for a GPU in a process that has not loaded LibTorch's CUDA part.
void check_device(at::Device device);

// Every short dtype name, for messages and for the module's xrun.bf16 and so on.
const std::vector<std::string>& dtype_names();

}  // namespace xrun
