#include "core/run/kept_profile.h"

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr std::array<const char*, 2> kTimes = {"own_s", "total_s"};
constexpr std::array<const char*, 3> kCounts = {"calls", "allocated_bytes", "kept_bytes"};
// More than any run counts, and two of them still have a sum.
constexpr int64_t kMost = int64_t{1} << 62;

double time_in(const Json& object, const char* name) {
  const double time = object.at(name).as_double();
  XRUN_CHECK(std::isfinite(time) && time >= 0, "{} is {}, wanted seconds", name, time);
  return time;
}

int64_t count_in(const Json& object, const char* name) {
  const int64_t count = object.at(name).as_int();
  XRUN_CHECK(count > -kMost && count < kMost, "{} is {}", name, count);
  return count;
}

using Place = std::tuple<std::string, int64_t, std::string>;  // file, line, text

Json sum_of(const Place& place, const Json& a, const Json& b) {
  Json sum(Json::Object{
      {"file", std::get<0>(place)}, {"line", std::get<1>(place)}, {"text", std::get<2>(place)}});
  const auto add_count = [&](const char* name) {
    sum.set(name, count_in(a, name) + count_in(b, name));
  };
  add_count("calls");
  for (const char* name : kTimes) sum.set(name, time_in(a, name) + time_in(b, name));
  add_count("allocated_bytes");
  add_count("kept_bytes");
  return sum;
}

}  // namespace

Json joined_profiles(const Json& before, const Json& now) {
  std::map<Place, Json> lines;
  Json nothing = Json::object();
  for (const char* name : kCounts) nothing.set(name, 0);
  for (const char* name : kTimes) nothing.set(name, 0.0);
  for (const Json* profile : {&before, &now}) {
    for (const Json& line : profile->at("lines").as_array()) {
      const Place place = {line.at("file").as_string(), line.at("line").as_int(),
                           line.at("text").as_string()};
      const auto known = lines.find(place);
      lines[place] = sum_of(place, known == lines.end() ? nothing : known->second, line);
    }
  }
  Json::Array all;
  for (auto& [place, line] : lines) all.push_back(std::move(line));
  return Json(Json::Object{{"seconds", time_in(before, "seconds") + time_in(now, "seconds")},
                           {"lines", Json(std::move(all))}});
}

}  // namespace xrun
