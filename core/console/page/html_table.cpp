#include "core/console/page/html_table.h"

#include <fmt/core.h>

#include <algorithm>

namespace xrun {

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

std::string html_details(const std::string& summary, const std::string& body, bool open) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", open ? " open" : "",
                     summary, body);
}

}  // namespace xrun
