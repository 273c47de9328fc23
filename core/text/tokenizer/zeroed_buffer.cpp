// Large buffers are mapped, aligned to huge pages; small ones come from the heap.

#include "core/text/tokenizer/zeroed_buffer.h"

#include <simdjson.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "core/base/error.h"
#include "core/base/file.h"

namespace xrun {

namespace {

constexpr size_t kHugePage = 2 << 20;
constexpr size_t kAlignment = 64;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

ZeroedBuffer::ZeroedBuffer(size_t bytes) {
  // A huge page would be more than half empty.
  if (bytes < kHugePage / 2) {
    // aligned_alloc needs a size that is a multiple of the alignment and not 0.
    data_ = std::aligned_alloc(kAlignment, round_up(bytes + 1, kAlignment));
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_, 0, bytes);
    return;
  }
  // Tables of vocabularies are read at random: with small pages each look-up would miss the TLB.
  // A map that is one huge page too large contains an aligned start; its ends are unmapped.
  const size_t size = round_up(bytes, kHugePage);
  void* map =
      mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(map);
  const size_t head = round_up(begin, kHugePage) - begin;
  data_ = static_cast<char*>(map) + head;
  mapped_ = size;
  if (head > 0) munmap(map, head);
  // The map is one huge page larger than `size`: `head` of it precedes the aligned start.
  munmap(static_cast<char*>(data_) + size, kHugePage - head);
  madvise(data_, size, MADV_HUGEPAGE);  // may fail: small pages work too
}

ZeroedBuffer::~ZeroedBuffer() {
  if (mapped_ > 0) {
    munmap(data_, mapped_);
  } else {
    std::free(data_);
  }
}

PaddedFile::PaddedFile(const std::string& path, size_t max_bytes) {
  // A folder opens, and its end is beyond any limit.
  XRUN_CHECK(!is_folder(path), "{}: is a folder, wanted a file", path);
  const int fd = open_to_read(path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fd < 0 ? nullptr : ::fdopen(fd, "rb"),
                                                             std::fclose);
  XRUN_CHECK(file && std::fseek(file.get(), 0, SEEK_END) == 0, "{}: cannot be read: {}", path,
             std::strerror(errno));
  const long size = std::ftell(file.get());
  std::rewind(file.get());
  // -1 for a file without a size, such as a pipe.
  XRUN_CHECK(size >= 0 && size_t(size) <= max_bytes, "{}: the file is larger than {} MiB", path,
             max_bytes >> 20);
  buffer_ = ZeroedBuffer(size_t(size) + kJsonPadding);
  size_ = std::fread(buffer_.as<char>(), 1, size_t(size), file.get());
  XRUN_CHECK(std::ferror(file.get()) == 0, "{}: cannot be read: {}", path, std::strerror(errno));
  XRUN_CHECK(size_ == size_t(size),
             "{}: the file is shorter than when it was opened: {} bytes instead of {}", path, size_,
             size);
  // A clone without Git LFS has a small text file in place of a large one.
  refuse_lfs_pointer(bytes(), path);
}

simdjson::padded_string_view padded(std::string_view json) {
  static_assert(kJsonPadding >= simdjson::SIMDJSON_PADDING);
  return simdjson::padded_string_view(json.data(), json.size(), json.size() + kJsonPadding);
}

}  // namespace xrun
