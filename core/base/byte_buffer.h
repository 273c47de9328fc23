#pragma once
// A growing buffer for many megabytes of bytes.

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

namespace xrun {

// Grows by realloc, which moves a large block by its page table; a std::string copies it, and
// touches twice the memory.
class ByteBuffer {
 public:
  size_t size() const { return size_; }
  std::string_view view() const { return {bytes_.get(), size_}; }

  void append(const void* bytes, size_t count) {
    if (count > 0) std::memcpy(extend(count), bytes, count);
  }
  // Adds `count` bytes for the caller to write, and returns the first of them; valid until the next
  // call. Throws std::bad_alloc.
  char* extend(size_t count) {
    if (count > capacity_ - size_) grow(count);
    char* at = bytes_.get() + size_;
    size_ += count;
    return at;
  }
  char& operator[](size_t at) { return bytes_.get()[at]; }

 private:
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };

  void grow(size_t count) {
    const size_t wanted = size_ + count < 2 * capacity_ ? 2 * capacity_ : size_ + count;
    auto* moved = static_cast<char*>(std::realloc(bytes_.get(), wanted));
    if (moved == nullptr) throw std::bad_alloc();
    (void)bytes_.release();  // realloc has taken it
    bytes_.reset(moved);
    capacity_ = wanted;
  }

  std::unique_ptr<char, Free> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace xrun
