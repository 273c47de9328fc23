#pragma once
// Compressed bytes for files that xrun writes; core/data/rows/byte_stream.h reads them.

#include <string>
#include <string_view>

namespace xrun {

// Returns the bytes as one zstd frame with a checksum; equal bytes give equal frames. Throws Error
// if the memory runs out.
std::string zstd_frame(std::string_view bytes);

}  // namespace xrun
