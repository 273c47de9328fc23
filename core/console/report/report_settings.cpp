// The settings of all runs side by side, one line per key, with the origin of each value.

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core/base/utf8.h"
#include "core/console/page/html_page.h"
#include "core/console/report/report_sections.h"
#include "core/run/record/run_record.h"

namespace xrun {

namespace {

constexpr size_t kValueBytes = 400;

struct SettingRow {
  std::string key;
  std::vector<const Setting*> values;  // one per run, nullptr if it lacks the key
};

bool differs(const SettingRow& row) {
  for (const Setting* setting : row.values) {
    if ((setting == nullptr) != (row.values[0] == nullptr)) return true;
    if (setting != nullptr && !(setting->value == row.values[0]->value)) return true;
  }
  return false;
}

// Returns the keys in the order of the first run that has them.
std::vector<SettingRow> rows_of(const std::vector<std::vector<Setting>>& settings) {
  std::vector<SettingRow> rows;
  std::map<std::string_view, size_t> index;
  for (size_t run = 0; run < settings.size(); ++run) {
    for (const Setting& setting : settings[run]) {
      auto found = index.find(setting.key);
      if (found == index.end()) {
        found = index.emplace(setting.key, rows.size()).first;
        rows.push_back({setting.key, std::vector<const Setting*>(settings.size(), nullptr)});
      }
      rows[found->second].values[run] = &setting;
    }
  }
  return rows;
}

// Marks `epochs` if `steps` is set too, which then decides the length of the run.
void mark_unused_epochs(std::vector<Setting>& settings) {
  const bool by_steps = std::any_of(settings.begin(), settings.end(), [](const Setting& one) {
    return one.key == "steps" && one.value.is_number();
  });
  for (Setting& setting : settings) {
    if (by_steps && setting.key == "epochs") setting.origin += ", not used: steps decides";
  }
}

std::string value_cell(const Setting* setting) {
  if (setting == nullptr) return "<span class=\"dim\">absent</span>";
  return "<code>" + html_escape(shortened(value_of(&setting->value), kValueBytes)) + "</code>";
}

std::string origin_cell(const Setting* setting) {
  if (setting == nullptr) return "";
  return "<span class=\"dim\">" + html_escape(setting->origin) + "</span>";
}

// Shows value and origin in columns for one run, and a column per run for several.
std::string settings_table(Runs runs, const std::vector<SettingRow>& rows) {
  const bool several = runs.size() > 1;
  std::vector<std::string> header = {"key"};
  if (!several) header.insert(header.end(), {"value", "from"});
  for (const RunFiles& run : runs) {
    if (several) header.push_back(html_escape(run.name));
  }
  HtmlTable table(std::move(header));
  for (const SettingRow& row : rows) {
    std::vector<std::string> cells = {"<code>" + html_escape(row.key) + "</code>"};
    if (!several) {
      cells.push_back(value_cell(row.values[0]));
      cells.push_back(origin_cell(row.values[0]));
    }
    for (const Setting* setting : row.values) {
      if (several) cells.push_back(value_cell(setting) + " " + origin_cell(setting));
    }
    // The page hides rows by these classes.
    table.add(cells, several && differs(row) ? "differs" : "same");
  }
  return table.html();
}

std::string recipes(Runs runs) {
  std::string out;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].recipe.empty()) continue;
    std::string name =
        runs.size() > 1 ? "recipe.lua of " + html_escape(runs[i].name) : "recipe.lua";
    if (i > 0 && runs[i].recipe == runs[0].recipe) {
      out += fmt::format("<p class=\"dim\">{}: identical</p>\n", name);
      continue;
    }
    out += html_details(name, "<pre>" + html_escape(runs[i].recipe) + "</pre>");
  }
  return out;
}

}  // namespace

std::string report_settings(Runs runs) {
  std::vector<std::vector<Setting>> settings;
  for (const RunFiles& run : runs) {
    settings.push_back(flat_settings(run.config, run.origins));
    mark_unused_epochs(settings.back());
  }
  const std::vector<SettingRow> rows = rows_of(settings);
  std::string out;
  if (rows.empty()) out = "<p class=\"dim\">no settings: config.json could not be read</p>\n";
  if (runs.size() > 1 && std::any_of(rows.begin(), rows.end(), differs)) {
    out +=
        "<input id=\"differing\" type=\"checkbox\"> <label for=\"differing\">only what differs"
        "</label>\n";
  }
  return out + settings_table(runs, rows) + recipes(runs);
}

}  // namespace xrun
