#pragma once
// Finds all tokens of a set in a text, in time linear in the text.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace xrun {

// The automaton of Aho and Corasick (1975) over reversed tokens: it reads a text backwards, and at
// each byte it knows every token that begins there. Filled, finished, then immutable and
// thread-safe.
class TokenFinder {
 public:
  bool empty() const { return nodes_.empty(); }
  // Adds a token that is not empty. If two have the same bytes, the first one counts.
  void add(std::string_view bytes, int32_t token);
  void finish();

  // Calls found(begin, end, token) for every token of the text, from back to front. Tokens that
  // begin at the same byte come from long to short, until `found` returns true.
  template <class Found>
  void find(std::string_view text, const Found& found) const {
    int32_t node = 0;
    for (size_t at = text.size(); at > 0;) {
      if (node == 0) at = end_before(text, at);
      if (at == 0) return;
      --at;
      node = step(node, static_cast<unsigned char>(text[at]));
      for (int32_t match = longest_from(node); match > 0; match = nodes_[size_t(match)].shorter) {
        const FinderNode& ended = nodes_[size_t(match)];
        if (found(uint32_t(at), uint32_t(at) + ended.size, ended.token)) break;
      }
    }
  }

 private:
  // The suffix of a token that was read last; node 0: none.
  struct FinderNode {
    std::vector<std::pair<unsigned char, int32_t>> next;
    int32_t token = -1;   // with exactly these bytes
    int32_t shorter = 0;  // the node of the next shorter token that begins here
    int32_t fail = 0;     // the node of the longest proper prefix that has one
    uint32_t size = 0;
  };
  // Returns the last offset up to `at` that follows a token's last byte, or 0.
  size_t end_before(std::string_view text, size_t at) const;
  int32_t child(int32_t node, unsigned char byte) const;
  int32_t step(int32_t node, unsigned char byte) const;
  int32_t longest_from(int32_t node) const {
    const FinderNode& here = nodes_[size_t(node)];
    return here.token >= 0 ? node : here.shorter;
  }

  std::vector<FinderNode> nodes_;
  std::array<bool, 256> last_bytes_{};
  int32_t only_last_byte_ = -1;  // the last byte of every token, such as '>'; else -1
};

}  // namespace xrun
