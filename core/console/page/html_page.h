#pragma once
// A self-contained web page and its tables: it loads no file, font, script or picture.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/console/terminal/table.h"

namespace xrun {

// A colour of every page, the CSS variable --NAME, with a value for light and one for dark pages.
// Text colours have a contrast of at least 4.5 to paper and panels, the others of at least 3.
struct PageColor {
  std::string_view name;
  std::string_view light, dark;  // "#rrggbb"
};

// Returns paper, panel, edge, text, dim, link, good, bad, and series-0 .. series-7 for curves.
std::span<const PageColor> page_colors();
constexpr int kSeriesColors = 8;
// Returns "var(--series-3)"; indices wrap at eight.
std::string series_color(size_t index);

// Returns any bytes as text for an element or a quoted attribute. They pass shown_text, where
// newline and tab stay, and are then escaped.
std::string html_escape(std::string_view text);

struct HtmlPage {
  std::string title = {};   // plain text, escaped here
  std::string body = {};    // HTML
  std::string style = {};   // CSS after the shared sheet; never untrusted text
  std::string script = {};  // runs once after the body; never untrusted text; "" for none
};

// Returns the whole file. Its content policy forbids every load and every script except `script`,
// so that untrusted text could run no script and load nothing even unescaped. Throws Error if style
// or script contains "</".
std::string html_page(const HtmlPage& page);

// Rows of cells under a header. Cells are HTML: untrusted text goes through html_escape first.
class HtmlTable {
 public:
  // Headers are HTML too; an empty list makes a table without a header.
  explicit HtmlTable(std::vector<std::string> header, std::vector<Align> align = {});
  // `classes` of the row: letters and spaces, never untrusted text.
  void add(const std::vector<std::string>& cells, std::string_view classes = "");
  bool empty() const { return rows_.empty(); }
  // Returns the table in a box that scrolls sideways; "" without rows.
  std::string html() const;

 private:
  std::string cell(const char* tag, size_t column, const std::string& inside) const;

  std::vector<std::string> header_;
  std::vector<Align> align_;
  std::string rows_;
};

// Returns a bar over `share` (0 to 1) of its cell.
std::string html_bar(double share);

// Returns a <details> element; both arguments are HTML.
std::string html_details(const std::string& summary, const std::string& body);

extern const std::string_view kTableStyle;  // styles of html_bar and HtmlTable

}  // namespace xrun
