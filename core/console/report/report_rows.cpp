// What stood in the packs: some rows of each source, trained text apart from what is only read.
#include <fmt/core.h>

#include <algorithm>

#include "core/console/page/html_page.h"
#include "core/console/page/plot.h"
#include "core/console/report/report_parts.h"

namespace xrun {

namespace {

std::string side_html(const std::vector<RowPiece>& pieces) {
  std::string out = "<div class=\"row mono\">";
  for (const RowPiece& piece : pieces) {
    const std::string text = html_escape(piece.text);
    out += piece.trained ? "<b class=\"trained\">" + text + "</b>"
                         : "<span class=\"dim\">" + text + "</span>";
  }
  return out + "</div>";
}

std::string source_html(const SourceSample& source) {
  std::string out = fmt::format("<p><b>{}</b>{}</p>\n", html_escape(source.name),
                                source.gap.empty() ? "" : ": " + html_escape(source.gap));
  for (const SampleRow& row : source.rows) {
    std::string names;
    for (const std::string& name : source.streams) {
      if (source.streams.size() > 1) names += (names.empty() ? ": " : ", ") + html_escape(name);
    }
    out += "<div class=\"dim\">" + html_escape(row.place) + names + "</div><div class=\"sides\">";
    for (const auto& pieces : row.streams) out += side_html(pieces);
    out += "</div>\n";
  }
  return out;
}

std::string lengths_html(const SourceSample& source) {
  std::vector<HistogramLine> lines;
  for (size_t i = 0; i < source.lengths.size(); ++i) {
    lines.push_back({i < source.streams.size() ? source.streams[i] : "", source.lengths[i], i});
  }
  return lines.empty() ? "" : histogram_figure("tokens a row", lines);
}

// Whether an earlier run was trained on the same rows, as far as they are shown.
bool shown_already(Runs runs, size_t index) {
  const Json* own = runs[index].record.find("inputs");
  return std::any_of(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(index),
                     [&](const RunFiles& run) {
                       const Json* inputs = run.record.find("inputs");
                       return own != nullptr && inputs != nullptr && *inputs == *own;
                     });
}

}  // namespace

std::string report_rows(Runs runs) {
  std::string out =
      "<p class=\"dim\">some rows of each source from the token cache: what is <b "
      "class=\"trained\">coloured</b> is trained, what is grey is only read</p>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    out += run_heading(runs, runs[i]);
    if (runs[i].sources.empty()) {
      out += "<p class=\"dim\">run.json names no data</p>\n";
    } else if (shown_already(runs, i)) {
      out += "<p class=\"dim\">the same as of a run above</p>\n";
    } else {
      std::string lengths;
      for (const SourceSample& source : runs[i].sources) {
        out += source_html(source);
        lengths += lengths_html(source);
      }
      if (!lengths.empty()) out += "<div class=\"plots\">\n" + lengths + "</div>\n";
    }
  }
  return out;
}

}  // namespace xrun
