#pragma once
// Aligned text tables.

#include <string>
#include <vector>

namespace xrun {

enum class Align { kLeft, kRight };

// Rows of cells under a header, columns two spaces apart, no borders.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header, std::vector<Align> align = {});
  // Missing cells are empty; Throws Error if there are more cells than columns.
  void add(std::vector<std::string> cells);
  // Returns the lines, each with a newline and without trailing spaces; nothing if only the header
  // is there. No line is wider than `width`: cells are cut with an ellipsis, those of the widest
  // columns first, numbers (right-aligned) last. 0: no limit.
  std::string text(int width = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<Align> align_;
};

}  // namespace xrun
