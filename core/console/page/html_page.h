#pragma once
// One self-contained web page: no file, font, script or picture comes from elsewhere.

#include <span>
#include <string>
#include <string_view>

namespace xrun {

// A colour of every page, the CSS variable --NAME: one value on light paper, one on dark. Those of
// text have a contrast of at least 4.5 to the paper and the panels, the others of at least 3.
struct PageColor {
  std::string_view name;
  std::string_view light, dark;  // "#rrggbb"
};

// paper panel edge text dim link good bad and series-0 .. series-7, which tell curves apart.
std::span<const PageColor> page_colors();
constexpr int kSeriesColors = 8;
// "var(--series-3)"; the eight come round again.
std::string series_color(size_t index);

// Returns text that stands for itself in an element or in a quoted attribute, whatever bytes it is
// made of: shown_text of it (newline and tab stay), escaped.
std::string html_escape(std::string_view text);

struct HtmlPage {
  std::string title = {};   // plain text: the tab's, escaped here
  std::string body = {};    // HTML
  std::string style = {};   // CSS behind the sheet that all pages share; ours, not foreign
  std::string script = {};  // run once behind the body; ours, not foreign; "" for none
};

// Returns the whole file. Its policy forbids every load and every script but `script`, so that
// foreign text that slipped through unescaped could do nothing. Throws Error if style or script
// would end their own element.
std::string html_page(const HtmlPage& page);

}  // namespace xrun
