#pragma once
// A byte trie that finds the vocabulary pieces at the beginning of a text.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace xrun {

// Edges in one hash table with open addressing. Filled once, then immutable and thread-safe.
class PieceTrie {
 public:
  PieceTrie();
  // Adds a piece that is not empty; a repeated one takes the new value. Requires value >= 0.
  void add(std::string_view piece, int32_t value);

  // Calls found(size, value) for each piece that text begins with, from short to long.
  template <class Found>
  void prefixes(std::string_view text, const Found& found) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      node = i == 0 ? roots_[byte] : child(node, byte);
      if (node == 0) return;
      if (values_[node] >= 0) found(i + 1, values_[node]);
    }
  }

 private:
  struct Edge {
    uint64_t key;  // the node and the byte; kNoEdge: empty
    uint32_t node;
  };
  static constexpr uint64_t kNoEdge = UINT64_MAX;
  static uint64_t key_of(uint32_t node, unsigned char byte) { return uint64_t(node) << 8 | byte; }
  // As in MergeTable (bpe_merge.h): 2^64 / the golden ratio.
  size_t slot_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }
  uint32_t child(uint32_t node, unsigned char byte) const {
    const uint64_t key = key_of(node, byte);
    for (size_t at = slot_of(key);; at = (at + 1) & (edges_.size() - 1)) {
      if (edges_[at].key == key) return edges_[at].node;
      if (edges_[at].key == kNoEdge) return 0;
    }
  }
  uint32_t add_child(uint32_t node, unsigned char byte);
  void insert(Edge edge);
  void grow();

  std::array<uint32_t, 256> roots_{};  // the nodes of first bytes; 0: none
  std::vector<int32_t> values_;        // by node, -1: no piece ends here; node 0 is the root
  std::vector<Edge> edges_;            // at most half full
  int shift_;
};

}  // namespace xrun
