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
  // Returns the lines, each with a newline and without trailing spaces. A table wider than `width`
  // has the cells of its widest left-aligned column cut with an ellipsis. 0: no limit.
  std::string text(int width = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<Align> align_;
};

}  // namespace xrun
