#include "core/text/tokenizer/zeroed_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace xrun {

namespace {

constexpr size_t kHugePage = 2 << 20;
constexpr size_t kAlignment = 64;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

ZeroedBuffer::ZeroedBuffer(size_t bytes) {
  if (bytes < kHugePage / 2) {
    data_ = std::aligned_alloc(kAlignment, round_up(bytes + 1, kAlignment));
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_, 0, bytes);
    return;
  }
  // A map one huge page too large has room for an aligned start; the ends are given back.
  const size_t size = round_up(bytes, kHugePage);
  void* map = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(map);
  const size_t head = round_up(begin, kHugePage) - begin;
  data_ = static_cast<char*>(map) + head;
  mapped_ = size;
  if (head > 0) munmap(map, head);
  munmap(static_cast<char*>(data_) + size, kHugePage - head);
  madvise(data_, size, MADV_HUGEPAGE);  // advice: small pages do as well
}

ZeroedBuffer::~ZeroedBuffer() {
  if (mapped_ > 0) {
    munmap(data_, mapped_);
  } else {
    std::free(data_);
  }
}

}  // namespace xrun
