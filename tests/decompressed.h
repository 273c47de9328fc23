#pragma once
// The content of a compressed file that a test reads back.

#include <string>

#include "core/data/rows/byte_stream.h"

namespace xrun {

// Returns the first 4 MiB of the content of a .zst or .gz file.
inline std::string decompressed(const std::string& path) {
  std::string text(1 << 22, '\0');
  text.resize(open_byte_stream(path, path)->read(text.data(), text.size()));
  return text;
}

}  // namespace xrun
