#pragma once
// The checksums of the pages of a file that is written in pieces.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace xrun {

// XXH3-64 of each page; the last page may be shorter.
class PageHasher {
 public:
  explicit PageHasher(uint64_t page_bytes);
  ~PageHasher();

  void bytes(std::string_view piece);
  // Ends the last page and returns the checksums of all.
  std::vector<uint64_t> finish();

 private:
  void end_page();

  struct State;
  std::unique_ptr<State> state_;
  uint64_t page_bytes_;
  uint64_t filled_ = 0;  // bytes of the present page
  std::vector<uint64_t> pages_;
};

}  // namespace xrun
