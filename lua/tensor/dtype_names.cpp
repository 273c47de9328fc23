// The first name of a row is the short one; the rest are PyTorch's.

#include "lua/tensor/dtype_names.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <cctype>

#include "core/base/error.h"
#include "core/base/file_access.h"

namespace xrun {
namespace {

struct DType {
  at::ScalarType type;
  std::array<std::string_view, 4> names;
};

constexpr std::array kDTypes = {
    DType{at::kFloat, {"f32", "float32", "float", ""}},
    DType{at::kDouble, {"f64", "float64", "double", ""}},
    DType{at::kHalf, {"f16", "float16", "half", ""}},
    DType{at::kBFloat16, {"bf16", "bfloat16", "", ""}},
    DType{at::kLong, {"i64", "int64", "long", ""}},
    DType{at::kInt, {"i32", "int32", "int", ""}},
    DType{at::kShort, {"i16", "int16", "short", ""}},
    DType{at::kChar, {"i8", "int8", "char", ""}},
    DType{at::kByte, {"u8", "uint8", "byte", ""}},
    DType{at::kBool, {"bool", "", "", ""}},
    DType{at::kComplexFloat, {"c64", "complex64", "cfloat", ""}},
    DType{at::kComplexDouble, {"c128", "complex128", "cdouble", ""}},
    DType{at::kFloat8_e4m3fn, {"f8e4m3", "float8_e4m3fn", "", ""}},
    DType{at::kFloat8_e5m2, {"f8e5m2", "float8_e5m2", "", ""}},
};

constexpr std::array<std::pair<at::Layout, std::string_view>, 2> kLayouts = {
    std::pair{at::kStrided, "strided"}, std::pair{at::kSparse, "sparse_coo"}};

constexpr std::array<std::pair<at::MemoryFormat, std::string_view>, 4> kMemoryFormats = {
    std::pair{at::MemoryFormat::Contiguous, "contiguous_format"},
    std::pair{at::MemoryFormat::Preserve, "preserve_format"},
    std::pair{at::MemoryFormat::ChannelsLast, "channels_last"},
    std::pair{at::MemoryFormat::ChannelsLast3d, "channels_last_3d"}};

template <class Value, class Table>
std::optional<Value> value_in(const Table& table, std::string_view key) {
  for (const auto& [value, name] : table) {
    if (name == key) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view short_dtype_name(at::ScalarType type) {
  for (const DType& row : kDTypes) {
    if (row.type == type) return row.names[0];
  }
  return c10::toString(type);
}

std::string_view layout_name(at::Layout layout) {
  for (const auto& [value, name] : kLayouts) {
    if (value == layout) return name;
  }
  return "other";
}

std::optional<at::ScalarType> dtype_of(std::string_view name) {
  // Rows with fewer names are filled with "".
  if (name.empty()) return std::nullopt;
  for (const DType& row : kDTypes) {
    for (std::string_view known : row.names) {
      if (known == name) return row.type;
    }
  }
  return std::nullopt;
}

std::optional<at::Layout> layout_of(std::string_view name) {
  const auto layout = value_in<at::Layout>(kLayouts, name);
  // Operators check the indices of sparse tensors less well.
  if (layout != at::kStrided && file_access_limited()) return std::nullopt;
  return layout;
}

std::optional<at::MemoryFormat> memory_format_of(std::string_view name) {
  return value_in<at::MemoryFormat>(kMemoryFormats, name);
}

// "cuda:0": a type, and an index of one or two digits.
std::optional<at::Device> device_of(std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view type = name.substr(0, colon);
  // -1 is the current device of the type.
  int index = -1;
  if (colon != std::string_view::npos) {
    const std::string_view digits = name.substr(colon + 1);
    if (digits.empty() || digits.size() > 2) return std::nullopt;
    index = 0;
    for (char c : digits) {
      if (!std::isdigit(static_cast<unsigned char>(c))) return std::nullopt;
      index = index * 10 + (c - '0');
    }
  }
  const auto at_index = static_cast<at::DeviceIndex>(index);
  if (type == "cpu") return at::Device(at::kCPU, at_index);
  if (type == "cuda") return at::Device(at::kCUDA, at_index);
  // Its tensors have no memory, so they are the least tested ones.
  if (type == "meta" && !file_access_limited()) return at::Device(at::kMeta, at_index);
  return std::nullopt;
}

// Without this LibTorch's error lists some fifty dispatch keys.
void check_device(at::Device device) {
  XRUN_CHECK(!device.is_cuda() || c10::impl::hasDeviceGuardImpl(at::kCUDA),
             "device \"{}\" is not available: this process computes on the CPU"
             "\nhint: --device cuda runs the recipe on a GPU",
             device.str());
}

const std::vector<std::string>& dtype_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const DType& row : kDTypes) list.emplace_back(row.names[0]);
    return list;
  }();
  return names;
}

}  // namespace xrun
