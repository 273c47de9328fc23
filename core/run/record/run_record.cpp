// config.json is walked depth first; a list of plain values is one setting. Profiles add up by
// (file, line, text), so an edited line starts from 0.

#include "core/run/record/run_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/base/json.h"

namespace xrun {

namespace {

bool is_plain(const Json& value) { return !value.is_object() && !value.is_array(); }

// A value that is shown as one setting.
bool is_leaf(const Json& value) {
  if (is_plain(value) || value.size() == 0) return true;
  if (!value.is_array()) return false;
  return std::all_of(value.as_array().begin(), value.as_array().end(), is_plain);
}

std::string origin_of(const Json& origins, std::string key) {
  std::string origin = text_member(origins, key);
  // A list of plain values is one setting, and its origin is that of its first element.
  if (origin.empty()) origin = text_member(origins, key + ".1");
  // Else the nearest table around it.
  while (origin.empty()) {
    const size_t dot = key.rfind('.');
    if (dot == std::string::npos) break;
    key.resize(dot);
    origin = text_member(origins, key);
  }
  return origin;
}

void add_settings(const Json& value, const std::string& key, const Json& origins,
                  std::vector<Setting>& out) {
  if (is_leaf(value)) {
    out.push_back({key, value, origin_of(origins, key)});
    return;
  }
  const std::string before = key.empty() ? "" : key + ".";
  if (value.is_object()) {
    for (const auto& [name, member] : value.as_object())
      add_settings(member, before + name, origins, out);
    return;
  }
  size_t number = 0;
  for (const Json& element : value.as_array()) {
    add_settings(element, before + std::to_string(++number), origins, out);
  }
}

// The figures of a line, in the order of the file.
struct LineFigure {
  const char* name;
  bool is_time;
};
constexpr LineFigure kLineFigures[] = {{"calls", false},
                                       {"own_s", true},
                                       {"total_s", true},
                                       {"allocated_bytes", false},
                                       {"kept_bytes", false}};
// Above any real count; the sum of two fits int64.
constexpr int64_t kLargestCount = int64_t{1} << 62;

double time_in(const Json& object, const char* name) {
  const double time = object.at(name).as_double();
  XRUN_CHECK(std::isfinite(time) && time >= 0, "{} is {}, wanted seconds", name, time);
  return time;
}

int64_t count_in(const Json& object, const char* name) {
  const int64_t count = object.at(name).as_int();
  XRUN_CHECK(count > -kLargestCount && count < kLargestCount, "{} is {}", name, count);
  return count;
}

using LineKey = std::tuple<std::string, int64_t, std::string>;  // file, line, text

Json sum_of(const LineKey& key, const Json& a, const Json& b) {
  Json sum(Json::Object{
      {"file", std::get<0>(key)}, {"line", std::get<1>(key)}, {"text", std::get<2>(key)}});
  for (const auto& [name, is_time] : kLineFigures) {
    if (is_time) {
      sum.set(name, time_in(a, name) + time_in(b, name));
    } else {
      sum.set(name, count_in(a, name) + count_in(b, name));
    }
  }
  return sum;
}

}  // namespace

std::vector<Setting> flat_settings(const Json& config, const Json& origins) {
  std::vector<Setting> out;
  if (config.is_object() && config.size() > 0) add_settings(config, "", origins, out);
  return out;
}

bool is_interactive(const Json& record) {
  const Json* mark = record.find("interactive");
  return mark != nullptr && mark->is_bool() && mark->as_bool();
}

std::vector<ChangedResume> changed_resumes(const Json& record) {
  std::vector<ChangedResume> out;
  const Json* resumes = record.find("resumes");
  if (resumes == nullptr || !resumes->is_array()) return out;
  for (const Json& resume : resumes->as_array()) {
    if (!resume.is_object()) continue;
    const Json *step = resume.find("step"), *changed = resume.find("changed");
    ChangedResume one;
    one.at = text_member(resume, "at");
    if (step != nullptr && step->is_int()) one.step = step->as_int();
    if (one.step == 0) {  // started over
      out.clear();
      continue;
    }
    if (changed == nullptr || !changed->is_array() || changed->size() == 0) continue;
    for (const Json& field : changed->as_array()) {
      one.changed.push_back(field.is_string() ? field.as_string() : dump_json(field));
    }
    // Runs from before "forced" listed only what needs --force.
    const Json* forced = resume.find("forced");
    one.forced = forced == nullptr || !forced->is_bool() || forced->as_bool();
    out.push_back(std::move(one));
  }
  return out;
}

Json add_profiles(const Json& before, const Json& now) {
  std::map<LineKey, Json> lines;
  // A line that only one profile has is added to zeros.
  Json nothing = Json::object();
  for (const LineFigure& figure : kLineFigures) nothing.set(figure.name, 0);
  for (const Json* profile : {&before, &now}) {
    for (const Json& line : profile->at("lines").as_array()) {
      // The text is part of the key, since an edited line is another line.
      const LineKey key = {line.at("file").as_string(), line.at("line").as_int(),
                           line.at("text").as_string()};
      const auto known = lines.find(key);
      lines[key] = sum_of(key, known == lines.end() ? nothing : known->second, line);
    }
  }
  Json::Array all;
  for (auto& [key, line] : lines) all.push_back(std::move(line));
  return Json(Json::Object{{"seconds", time_in(before, "seconds") + time_in(now, "seconds")},
                           {"lines", Json(std::move(all))}});
}

}  // namespace xrun
