// Edges (node, byte) -> node in one open-addressing table that doubles at half full.

#include "core/text/tokenizer/piece_trie.h"

#include <bit>
#include <utility>

namespace xrun {

// 1024 slots are 10 bits of the hash, whose top bits choose the slot.
PieceTrie::PieceTrie() : values_(1, -1), edges_(1024, Edge{kNoEdge, 0}), shift_(64 - 10) {}

void PieceTrie::add(std::string_view piece, int32_t value) {
  uint32_t node = 0;
  for (size_t i = 0; i < piece.size(); ++i) {
    const auto byte = static_cast<unsigned char>(piece[i]);
    // First bytes have a separate array: every character of a text begins a look-up there.
    uint32_t next = i == 0 ? roots_[byte] : child(node, byte);
    if (next == 0) next = add_child(node, byte);
    node = next;
  }
  values_[node] = value;
}

uint32_t PieceTrie::add_child(uint32_t node, unsigned char byte) {
  const auto added = uint32_t(values_.size());
  values_.push_back(-1);
  if (node == 0) {
    roots_[byte] = added;
  } else {
    // At most half full, so that runs of occupied slots stay short.
    if (values_.size() > edges_.size() / 2) grow();
    insert({key_of(node, byte), added});
  }
  return added;
}

void PieceTrie::insert(Edge edge) {
  size_t at = slot_of(edge.key);
  while (edges_[at].key != kNoEdge) at = (at + 1) & (edges_.size() - 1);
  edges_[at] = edge;
}

void PieceTrie::grow() {
  const std::vector<Edge> old =
      std::exchange(edges_, std::vector<Edge>(edges_.size() * 2, Edge{kNoEdge, 0}));
  shift_ = 64 - std::countr_zero(edges_.size());
  for (const Edge& edge : old) {
    if (edge.key != kNoEdge) insert(edge);
  }
}

}  // namespace xrun
