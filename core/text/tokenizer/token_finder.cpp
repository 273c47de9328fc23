// Aho and Corasick (1975): nodes are built over reversed tokens; finish() links them breadth
// first.

#include "core/text/tokenizer/token_finder.h"

#include <string.h>

#include <algorithm>

namespace xrun {

size_t TokenFinder::end_before(std::string_view text, size_t at) const {
  // Backwards, a token starts with its last byte; memrchr skips the text before that.
  if (only_last_byte_ >= 0) {
    const void* found = memrchr(text.data(), only_last_byte_, at);
    return found == nullptr ? 0 : size_t(static_cast<const char*>(found) - text.data()) + 1;
  }
  while (at > 0 && !last_bytes_[static_cast<unsigned char>(text[at - 1])]) --at;
  return at;
}

int32_t TokenFinder::child(int32_t node, unsigned char byte) const {
  const auto& next = nodes_[size_t(node)].next;
  const auto edge =
      std::find_if(next.begin(), next.end(), [&](const auto& e) { return e.first == byte; });
  return edge == next.end() ? 0 : edge->second;
}

int32_t TokenFinder::step(int32_t node, unsigned char byte) const {
  // Each byte read goes one node deeper and each failure link goes up, so the links followed are at
  // most the bytes read.
  while (true) {
    const int32_t next = child(node, byte);
    if (next > 0 || node == 0) return next;
    // Fall back to the longest proper prefix that has a node.
    node = nodes_[size_t(node)].fail;
  }
}

void TokenFinder::add(std::string_view bytes, int32_t token) {
  if (nodes_.empty()) nodes_.emplace_back();
  last_bytes_[static_cast<unsigned char>(bytes.back())] = true;
  int32_t node = 0;
  // Reversed, since texts are read backwards.
  for (size_t at = bytes.size(); at-- > 0;) {
    const auto byte = static_cast<unsigned char>(bytes[at]);
    int32_t next = child(node, byte);
    if (next == 0) {
      next = int32_t(nodes_.size());
      nodes_[size_t(node)].next.emplace_back(byte, next);
      nodes_.emplace_back();
      nodes_.back().size = nodes_[size_t(node)].size + 1;
    }
    node = next;
  }
  FinderNode& end = nodes_[size_t(node)];
  if (end.token < 0) end.token = token;
}

void TokenFinder::finish() {
  if (!nodes_.empty() && nodes_[0].next.size() == 1) only_last_byte_ = nodes_[0].next[0].first;
  // Breadth first: a node fails to a shallower one, whose links are complete.
  std::vector<int32_t> order;
  if (!nodes_.empty()) order.push_back(0);
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t parent = order[i];
    for (const auto& [byte, node] : nodes_[size_t(parent)].next) {
      FinderNode& here = nodes_[size_t(node)];
      here.fail = parent == 0 ? 0 : step(nodes_[size_t(parent)].fail, byte);
      here.shorter = longest_from(here.fail);
      order.push_back(node);
    }
  }
}

}  // namespace xrun
