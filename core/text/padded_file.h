#pragma once
// A file in memory as the JSON parser wants it: with readable bytes behind the end.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace xrun {

constexpr size_t kJsonPadding = 64;  // simdjson reads this far ahead

class PaddedFile {
 public:
  // Throws Error that names the path if it cannot be read or is larger than max_bytes.
  PaddedFile(const std::string& path, size_t max_bytes);
  // The file; kJsonPadding zero bytes follow it.
  std::string_view bytes() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
};

}  // namespace xrun
