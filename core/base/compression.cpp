// One frame holds the size of its content, so that a reader may allocate it at once.

#include "core/base/compression.h"

#include <zstd.h>

#include <memory>

#include "core/base/error.h"

namespace xrun {

std::string zstd_frame(std::string_view bytes) {
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                   ZSTD_freeCCtx);
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  size_t size = 0;
  if (context != nullptr) {
    // The checksum, 4 bytes at the end of the frame, makes a reader refuse a damaged frame.
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
    size = ZSTD_compress2(context.get(), out.data(), out.size(), bytes.data(), bytes.size());
  }
  XRUN_CHECK(context != nullptr && !ZSTD_isError(size), "{} bytes cannot be compressed: {}",
             bytes.size(), context == nullptr ? "out of memory" : ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

}  // namespace xrun
