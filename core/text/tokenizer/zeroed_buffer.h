#pragma once
// Zeroed memory for tables and files, on huge pages where the system gives them.

#include <cstddef>
#include <utility>

namespace xrun {

// Owns bytes that begin as zero, aligned to 64 at least. From half a huge page on they are mapped,
// aligned and marked for huge pages: one fault in place of 512, and few misses of the TLB.
class ZeroedBuffer {
 public:
  ZeroedBuffer() = default;
  // Throws std::bad_alloc.
  explicit ZeroedBuffer(size_t bytes);
  ~ZeroedBuffer();
  ZeroedBuffer(ZeroedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), mapped_(std::exchange(other.mapped_, 0)) {}
  ZeroedBuffer& operator=(ZeroedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t mapped_ = 0;  // bytes of the map; 0: from the heap
};

}  // namespace xrun
