#pragma once
// A file in memory as the JSON parser wants it: with readable bytes behind the end.

#include <cstddef>
#include <string>
#include <string_view>

#include "core/text/tokenizer/zeroed_buffer.h"

namespace xrun {

constexpr size_t kJsonPadding = 64;  // simdjson reads this far ahead

class PaddedFile {
 public:
  // Throws Error that names the path if it cannot be read or is larger than max_bytes.
  PaddedFile(const std::string& path, size_t max_bytes);
  // The file; kJsonPadding zero bytes follow it.
  std::string_view bytes() const { return {buffer_.as<char>(), size_}; }

 private:
  ZeroedBuffer buffer_;
  size_t size_ = 0;
};

}  // namespace xrun
