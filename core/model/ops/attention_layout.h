#pragma once
// The layout of attention in segments and trees: it decides which keys each row of a pack sees.

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace xrun {

// Nodes are runs of consecutive rows in preorder: a node, then the subtrees of its children. A
// row's path is all rows of the nodes above, then the rows of its own node up to itself. The row
// sees its path and nothing else. Without `parent` every node is a root: the segments of a plain
// pack.
struct AttentionLayout {
  std::vector<int64_t> cu_seqlens;   // [N+1] boundaries of nodes, from 0 to T; empty ones are legal
  std::vector<int64_t> parent = {};  // [N] the node above, -1 for a root; empty: all are roots
  int64_t window = 0;                // only the last `window` rows of the path; 0: all
};

// Throws Error with field, index and value unless the nodes cover `rows` rows and nest in preorder
// and the window is not negative. The message begins with `op`.
void check_layout(const char* op, at::IntArrayRef cu_seqlens, at::IntArrayRef parent,
                  int64_t window, int64_t rows);

// Per-node values derived from a layout.
struct LayoutPaths {
  std::vector<int64_t> cu_seqlens;  // [N+1]
  std::vector<int64_t> parent;      // [N], always filled
  std::vector<int64_t> position;    // [N] position on the path of the node's first row
  std::vector<int64_t> end;         // [N] the row after the node's subtree
  std::vector<int64_t> roots;  // [trees + 1] boundaries of the trees that have rows, from 0 to T

  int64_t nodes() const { return static_cast<int64_t>(parent.size()); }
};

// Returns the values for a layout that passes check_layout. Remembers each thread's last result,
// since all layers of a forward ask for the same one.
std::shared_ptr<const LayoutPaths> layout_paths(at::IntArrayRef cu_seqlens, at::IntArrayRef parent);

}  // namespace xrun
