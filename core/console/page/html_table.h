#pragma once
// Tables of a page.

#include <string>
#include <string_view>
#include <vector>

#include "core/console/terminal/table.h"

namespace xrun {

// Rows of cells under a header. Cells are HTML: foreign text goes through html_escape first.
class HtmlTable {
 public:
  // Headers are HTML as well; an empty list is a table without one. Numbers stand right.
  explicit HtmlTable(std::vector<std::string> header, std::vector<Align> align = {});
  // `classes` of the row are ours: letters and blanks.
  void add(const std::vector<std::string>& cells, std::string_view classes = "");
  bool empty() const { return rows_.empty(); }
  // The table in a box that scrolls sideways; "" if it has no row.
  std::string html() const;

 private:
  std::string cell(const char* tag, size_t column, const std::string& inside) const;

  std::vector<std::string> header_;
  std::vector<Align> align_;
  std::string rows_;
};

// A bar as long as `share` (0 to 1) of its cell, for a look at parts of a whole.
std::string html_bar(double share);

// <details>: a summary that opens on its body. Both are HTML.
std::string html_details(const std::string& summary, const std::string& body, bool open = false);

extern const std::string_view kTableStyle;  // of the bars

}  // namespace xrun
