// In preorder a node's parent is the node before it or one of the nodes above that one. The nodes
// whose subtrees are still open form a stack; the subtree of a parent that is not on it has ended.

#include "core/model/ops/attention_layout.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace xrun {

namespace {

// Throws Error for a boundary that would read beyond the pack.
void check_boundaries(const char* op, at::IntArrayRef cu_seqlens, int64_t rows) {
  XRUN_CHECK(!cu_seqlens.empty(), "{}: cu_seqlens is empty, wanted the boundaries from 0 to {}", op,
             rows);
  // Library kernels take boundaries in int32.
  XRUN_CHECK(rows <= std::numeric_limits<int32_t>::max(),
             "{}: the pack has {} rows, wanted fewer than 2^31", op, rows);
  XRUN_CHECK(cu_seqlens[0] == 0, "{}: cu_seqlens[0] is {}, wanted 0", op, cu_seqlens[0]);
  for (size_t n = 1; n < cu_seqlens.size(); ++n) {
    XRUN_CHECK(cu_seqlens[n] >= cu_seqlens[n - 1] && cu_seqlens[n] <= rows,
               "{}: cu_seqlens[{}] is {}, wanted a number from {}, the boundary before it, to {}, "
               "the number of rows",
               op, n, cu_seqlens[n], cu_seqlens[n - 1], rows);
  }
  XRUN_CHECK(cu_seqlens.back() == rows, "{}: cu_seqlens[{}] is {}, wanted {}, the number of rows",
             op, cu_seqlens.size() - 1, cu_seqlens.back(), rows);
}

LayoutPaths make_paths(at::IntArrayRef cu_seqlens, at::IntArrayRef parent) {
  const size_t nodes = cu_seqlens.size() - 1;
  LayoutPaths paths{.cu_seqlens = cu_seqlens.vec(),
                    .parent = parent.empty() ? std::vector<int64_t>(nodes, -1) : parent.vec(),
                    .position = std::vector<int64_t>(nodes, 0),
                    .end = std::vector<int64_t>(cu_seqlens.begin() + 1, cu_seqlens.end()),
                    .roots = {0}};
  for (size_t n = 0; n < nodes; ++n) {
    if (paths.parent[n] < 0) {
      // Empty roots have no rows and make no tree.
      if (paths.roots.back() < cu_seqlens[n]) paths.roots.push_back(cu_seqlens[n]);
      continue;
    }
    const auto above = static_cast<size_t>(paths.parent[n]);
    // The tokens of all nodes above.
    paths.position[n] = paths.position[above] + cu_seqlens[above + 1] - cu_seqlens[above];
  }
  if (paths.roots.back() < cu_seqlens.back()) paths.roots.push_back(cu_seqlens.back());
  // Goes backwards, since children follow their parent.
  for (size_t n = nodes; n-- > 0;) {
    if (paths.parent[n] < 0) continue;
    int64_t& end = paths.end[static_cast<size_t>(paths.parent[n])];
    end = std::max(end, paths.end[n]);
  }
  return paths;
}

}  // namespace

void check_layout(const char* op, at::IntArrayRef cu_seqlens, at::IntArrayRef parent,
                  int64_t window, int64_t rows) {
  XRUN_CHECK(window >= 0, "{}: window is {}, wanted 0 (all) or more", op, window);
  check_boundaries(op, cu_seqlens, rows);
  if (parent.empty()) return;
  XRUN_CHECK(parent.size() == cu_seqlens.size() - 1,
             "{}: parent has {} entries, wanted {}, one per node of cu_seqlens", op, parent.size(),
             cu_seqlens.size() - 1);
  std::vector<int64_t> open;  // the nodes above the next one, root first
  for (size_t n = 0; n < parent.size(); ++n) {
    const auto self = static_cast<int64_t>(n);
    XRUN_CHECK(parent[n] >= -1 && parent[n] < self,
               "{}: parent[{}] is {}, wanted -1 (a root) or a node before {}", op, n, parent[n], n);
    // The subtrees of nodes that are popped have ended.
    while (!open.empty() && open.back() != parent[n]) open.pop_back();
    XRUN_CHECK(
        parent[n] == -1 || !open.empty(),
        "{}: parent[{}] is {}, but the subtree of node {} ends before node {}; nodes must be "
        "in preorder",
        op, n, parent[n], parent[n], n);
    open.push_back(self);
  }
}

std::shared_ptr<const LayoutPaths> layout_paths(at::IntArrayRef cu_seqlens,
                                                at::IntArrayRef parent) {
  struct LastLayout {
    std::vector<int64_t> parent;  // as given
    std::shared_ptr<const LayoutPaths> paths;
  };
  // Every layer of a forward asks for the same layout.
  static thread_local LastLayout last;
  // Compared by value, since two steps often have equal layouts.
  if (!last.paths || at::IntArrayRef(last.paths->cu_seqlens) != cu_seqlens ||
      at::IntArrayRef(last.parent) != parent) {
    last.paths = std::make_shared<const LayoutPaths>(make_paths(cu_seqlens, parent));
    last.parent = parent.vec();
  }
  return last.paths;
}

}  // namespace xrun
