#pragma once
// Zeroed memory for tables and files, on huge pages if the system gives them.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace simdjson {
class padded_string_view;
}

namespace xrun {

// Owns bytes that start as zero, aligned to at least 64. From half a huge page on they are mapped,
// aligned and marked for huge pages: one page fault instead of 512, and few TLB misses.
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

constexpr size_t kJsonPadding = 64;  // simdjson reads at most this far past the end

// A file in memory, padded for the JSON parser.
class PaddedFile {
 public:
  // Throws Error naming the path if it cannot be read or is larger than max_bytes.
  PaddedFile(const std::string& path, size_t max_bytes);
  // The file's bytes; kJsonPadding zero bytes follow them.
  std::string_view bytes() const { return {buffer_.as<char>(), size_}; }

 private:
  ZeroedBuffer buffer_;
  size_t size_ = 0;
};

// Returns a view for simdjson of text followed by kJsonPadding readable bytes.
simdjson::padded_string_view padded(std::string_view json);

}  // namespace xrun
