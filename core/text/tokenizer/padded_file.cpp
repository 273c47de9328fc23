#include "core/text/tokenizer/padded_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/base/error.h"
#include "core/base/lfs_pointer.h"

namespace xrun {

PaddedFile::PaddedFile(const std::string& path, size_t max_bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             std::fclose);
  XRUN_CHECK(file && std::fseek(file.get(), 0, SEEK_END) == 0, "{}: cannot be read: {}", path,
             std::strerror(errno));
  const long size = std::ftell(file.get());
  std::rewind(file.get());
  XRUN_CHECK(size >= 0 && size_t(size) <= max_bytes, "{}: the file is larger than {} MiB", path,
             max_bytes >> 20);
  buffer_ = ZeroedBuffer(size_t(size) + kJsonPadding);
  size_ = std::fread(buffer_.as<char>(), 1, size_t(size), file.get());
  XRUN_CHECK(size_ == size_t(size), "{}: cannot be read: {}", path, std::strerror(errno));
  refuse_lfs_pointer(bytes(), path);
}

}  // namespace xrun
