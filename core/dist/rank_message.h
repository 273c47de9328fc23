#pragma once
// Values that one rank sends to the others, written and read in the same order.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace xrun {

// Appends values to a message: doubles keep their bits, NaN included.
class MessageWriter {
 public:
  MessageWriter& int64(int64_t value);
  MessageWriter& float64(double value);
  MessageWriter& string(std::string_view value);
  MessageWriter& tensor(const at::Tensor& value);  // copied to the host; undefined is legal
  template <typename T>
  MessageWriter& list(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return string({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads a message, which must outlive the reader. Reading past the end throws Error.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  int64_t int64();
  double float64();
  std::string_view string();
  at::Tensor tensor();  // on the host
  template <typename T>
  std::vector<T> list() {
    const std::string_view bytes = string();
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view take(size_t size);

  std::string_view rest_;
};

}  // namespace xrun
