#pragma once
// Reads files of torch.save as hostile input: dicts, lists and tuples of tensors, numbers and
// strings. Nothing of a file is executed.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

enum class TorchKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kTuple,
  kList,
  kDict,
  kTensor,
  kClass,    // "torch.FloatStorage"; inside the parser only
  kStorage,  // inside the parser only
};

enum class TorchType : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool
};

// Returns "float32", the name of the dtype in torch.
const char* torch_type_name(TorchType type);

// A strided view of a storage; every element is within it.
struct TorchTensor {
  TorchType type = TorchType::kFloat32;
  std::string_view storage;  // the bytes of all elements of the storage
  int64_t offset = 0;        // in elements
  std::vector<int64_t> shape, stride;
};

// One file in memory. Values are named by numbers, since in a pickle they may be shared or contain
// themselves. Immutable; thread-safe.
class TorchFile {
 public:
  using ValueId = int32_t;

  // Parses a file, or bytes that messages call `name`. Throws Error that names the file and the
  // byte for an opcode, class or function that torch_file.cpp does not list, for a value beyond the
  // end, and for a tensor beyond its storage.
  explicit TorchFile(const std::filesystem::path& path);
  TorchFile(std::string bytes, std::string name);
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;

  const std::string& name() const { return name_; }
  ValueId root() const { return root_; }
  TorchKind kind(ValueId value) const { return nodes_[size_t(value)].kind; }
  const char* kind_name(ValueId value) const;

  // Each requires the kind.
  bool as_bool(ValueId value) const { return nodes_[size_t(value)].whole != 0; }
  int64_t as_int(ValueId value) const { return nodes_[size_t(value)].whole; }
  double as_float(ValueId value) const;
  std::string_view as_string(ValueId value) const;
  const TorchTensor& as_tensor(ValueId value) const;
  // Elements of a tuple or list; of a dict its keys and values in turn, repeated keys included.
  std::span<const ValueId> items(ValueId value) const;

  // Returns the value of a string key of a dict, the last one as in Python; nothing if it is absent
  // or `dict` is not a dict.
  std::optional<ValueId> find(ValueId dict, std::string_view key) const;

 private:
  friend class PickleReader;
  struct PickledValue {
    TorchKind kind;
    int64_t whole;  // the value, the bits of a float, or a position in the lists below
  };

  std::string bytes_, name_;
  std::vector<PickledValue> nodes_;
  std::vector<std::string_view> strings_;
  std::vector<std::vector<ValueId>> sequences_;
  std::vector<TorchTensor> tensors_;
  ValueId root_ = -1;
};

// Returns the elements of a tensor in row-major order. Throws Error that starts with `where` if
// its type is not an integer type, or not a floating one.
std::vector<int64_t> torch_integers(const TorchTensor& tensor, const std::string& where);
std::vector<float> torch_floats(const TorchTensor& tensor, const std::string& where);

}  // namespace xrun
