// A tree as text. A node begins where its parent ends; children follow their parent, as in the
// folded pack.
//   ├─ 1,024 tokens x2: <|im_start|>system
//   │  ├─ 128 tokens (chosen pairs.jsonl:17): Paris.

#include <fmt/core.h>

#include "core/base/strings.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

class TreeWriter {
 public:
  TreeWriter(const InspectedFold& fold, int width)
      : fold_(fold), width_(width), children_(fold.nodes.size()) {
    const FoldTreeNodes drawn = fold_tree_nodes(fold);
    alone_ = drawn.alone;
    for (const size_t n : drawn.shared) {
      const int32_t parent = fold.tree.parent[n];
      (parent < 0 ? roots_ : children_[static_cast<size_t>(parent)]).push_back(n);
    }
  }

  std::vector<std::string> write() {
    for (size_t i = 0; i < roots_.size(); ++i) {
      add(roots_[i], "", alone_ == 0 && i + 1 == roots_.size());
    }
    if (alone_ > 0) lines_.push_back(cut_to_width("└─ " + shares_nothing_text(alone_), width_));
    return std::move(lines_);
  }

 private:
  void add(size_t n, const std::string& indent, bool last) {
    const InspectedFold::InspectedNode& node = fold_.nodes[n];
    std::string line = indent + (last ? "└─ " : "├─ ") + counted(node.tokens, "token");
    if (node.segments > 1) line += fmt::format(" x{}", node.segments);
    std::string ends;
    // Names of files are foreign.
    for (const std::string& end : node.ends) add_item(ends, shown_text(end, Blanks::kBreaksMarked));
    line += ends.empty() ? ": " + node.text : fmt::format(" ({}): {}", ends, node.text);
    lines_.push_back(cut_to_width(line, width_));
    const std::vector<size_t>& below = children_[n];
    for (size_t i = 0; i < below.size(); ++i) {
      add(below[i], indent + (last ? "   " : "│  "), i + 1 == below.size());
    }
  }

  const InspectedFold& fold_;
  int width_;
  std::vector<std::vector<size_t>> children_;
  std::vector<size_t> roots_;
  int64_t alone_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace

FoldTreeNodes fold_tree_nodes(const InspectedFold& fold) {
  FoldTreeNodes found;
  // A root with one segment shares nothing. Nodes follow their parents, so a root is decided before
  // the nodes below it.
  std::vector<bool> shown(fold.nodes.size());
  for (size_t n = 0; n < fold.nodes.size(); ++n) {
    const int32_t parent = fold.tree.parent[n];
    shown[n] = parent < 0 ? fold.nodes[n].segments > 1 : shown[static_cast<size_t>(parent)];
    if (shown[n]) found.shared.push_back(n);
    if (parent < 0 && !shown[n]) ++found.alone;
  }
  return found;
}

std::string shares_nothing_text(int64_t alone) {
  return counted(alone, "sequence") + (alone == 1 ? " that shares nothing" : " that share nothing");
}

std::vector<std::string> fold_tree_lines(const InspectedFold& fold, int width) {
  return TreeWriter(fold, width).write();
}

}  // namespace xrun
