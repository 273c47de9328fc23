#pragma once
// Interns strings as consecutive numbers.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// Distinct strings, numbered from 0 in the order of add().
class StringIds {
 public:
  explicit StringIds(size_t expected);
  // Returns the string's number, a new one if it is unknown.
  int32_t add(std::string_view text);
  // Returns the string's number; -1 if it is unknown.
  int32_t find(std::string_view text) const;
  // Returns the string of a number, valid until the next add().
  std::string_view text(int32_t id) const {
    const uint32_t begin = begin_[static_cast<size_t>(id)];
    return {arena_.data() + begin, begin_[static_cast<size_t>(id) + 1] - begin};
  }
  int32_t size() const { return static_cast<int32_t>(begin_.size()) - 1; }

 private:
  struct StringSlot {
    uint32_t tag = 0;  // high bits of the hash
    int32_t id = -1;   // -1: empty
  };
  size_t slot_of(std::string_view text, uint64_t hash) const;
  void grow();

  std::string arena_;
  std::vector<uint32_t> begin_ = {0};  // [size + 1] in the arena
  std::vector<StringSlot> slots_;      // open addressing, at most half full
  size_t longest_ = 0;
};

}  // namespace xrun
