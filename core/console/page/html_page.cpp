// Untrusted text is escaped; as a second defence, a content policy allows only the script with the
// nonce, a digest of title, body, style and script.

#include "core/console/page/html_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/console/terminal/shown_text.h"

namespace xrun {

namespace {

constexpr std::array<PageColor, 16> kPageColors = {{{"paper", "#ffffff", "#14171c"},
                                                    {"panel", "#f4f6f8", "#1d2229"},
                                                    {"edge", "#84909c", "#68747f"},
                                                    {"text", "#1c2228", "#e4e8ec"},
                                                    {"dim", "#5a6570", "#a2adb8"},
                                                    {"link", "#1760a5", "#7cb8f5"},
                                                    {"good", "#1d7034", "#70cf88"},
                                                    {"bad", "#b3202f", "#f78e97"},
                                                    {"series-0", "#1f6fb4", "#6cb2f2"},
                                                    {"series-1", "#b9520b", "#f5a155"},
                                                    {"series-2", "#2a7d3f", "#6fcf8a"},
                                                    {"series-3", "#8e44ad", "#cf9be8"},
                                                    {"series-4", "#c0273b", "#f58694"},
                                                    {"series-5", "#0f7580", "#5fd0da"},
                                                    {"series-6", "#80592b", "#d3ac78"},
                                                    {"series-7", "#5f6670", "#b4bac4"}}};

constexpr std::string_view kSheet = R"css(
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1.6rem 3rem; max-width: 84rem; background: var(--paper);
  color: var(--text); font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
a { color: var(--link); }
code, pre, .mono { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: .92em; }
pre { background: var(--panel); padding: .7rem .9rem; overflow-x: auto; border-radius: 4px; }
table { border-collapse: collapse; }
th, td { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: 500; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide { overflow-x: auto; }
.dim { color: var(--dim); }
.good { color: var(--good); }
.bad { color: var(--bad); }
summary { cursor: pointer; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
)css";

void append_colors(std::string& out, bool dark) {
  for (const PageColor& color : kPageColors) {
    out += fmt::format(" --{}: {};", color.name, dark ? color.dark : color.light);
  }
}

// Defines the colour variables for light and for dark pages; kSheet uses only their names.
std::string sheet() {
  std::string out = ":root { color-scheme: light dark;";
  append_colors(out, false);
  out += " }\n@media (prefers-color-scheme: dark) { :root {";
  append_colors(out, true);
  out += " } }";
  out += kSheet;
  return out;
}

}  // namespace

std::span<const PageColor> page_colors() { return kPageColors; }

std::string series_color(size_t index) {
  return fmt::format("var(--series-{})", index % kSeriesColors);
}

std::string html_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  // Control characters could hide text on the page; shown_text makes them visible.
  for (const char c : shown_text(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_page(const HtmlPage& page) {
  // "</" would end the element early.
  XRUN_CHECK(page.style.find("</") == std::string::npos, "a page's style contains \"</\"");
  XRUN_CHECK(page.script.find("</") == std::string::npos, "a page's script contains \"</\"");
  const std::string nonce = Hasher()
                                .field("title", page.title)
                                .field("body", page.body)
                                .field("style", page.style)
                                .field("script", page.script)
                                .hex();
  // default-src 'none': the page loads nothing. Styles are inline; the one script has the nonce.
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'nonce-{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n",
      nonce, html_escape(page.title), sheet(), page.style);
  out += page.body;
  if (!page.script.empty()) {
    out += fmt::format("\n<script nonce=\"{}\">\n{}</script>", nonce, page.script);
  }
  out += "\n</body>\n</html>\n";
  return out;
}

const std::string_view kTableStyle = R"css(
.bar { display: inline-block; width: 9rem; height: .7em; background: var(--panel);
  border-radius: 2px; }
.bar i { display: block; height: 100%; background: var(--series-0); border-radius: 2px; }
details { margin: .5rem 0; }
tbody tr:hover { background: var(--panel); }
)css";

HtmlTable::HtmlTable(std::vector<std::string> header, std::vector<Align> align)
    : header_(std::move(header)), align_(std::move(align)) {}

std::string HtmlTable::cell(const char* tag, size_t column, const std::string& inside) const {
  // Columns beyond the list are aligned left.
  const bool right = column < align_.size() && align_[column] == Align::kRight;
  return fmt::format("<{0}{1}>{2}</{0}>", tag, right ? " class=\"n\"" : "", inside);
}

void HtmlTable::add(const std::vector<std::string>& cells, std::string_view classes) {
  rows_ += classes.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", classes);
  for (size_t i = 0; i < cells.size(); ++i) rows_ += cell("td", i, cells[i]);
  rows_ += "</tr>\n";
}

std::string HtmlTable::html() const {
  if (rows_.empty()) return "";
  std::string head;
  for (size_t i = 0; i < header_.size(); ++i) head += cell("th", i, header_[i]);
  if (!head.empty()) head = "<thead><tr>" + head + "</tr></thead>\n";
  return "<div class=\"wide\"><table>\n" + head + "<tbody>\n" + rows_ + "</tbody></table></div>\n";
}

std::string html_bar(double share) {
  return fmt::format("<span class=\"bar\"><i style=\"width:{:.1f}%\"></i></span>",
                     100 * std::clamp(share, 0.0, 1.0));
}

std::string html_details(const std::string& summary, const std::string& body) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", summary, body);
}

}  // namespace xrun
