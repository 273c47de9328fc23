#include "core/run/run_state.h"

#include <cmath>
#include <limits>

namespace xrun {

namespace {

constexpr const char* kNumber = "$number";

Json encode_number(double value) {
  const char* name = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return Json(Json::Object{{kNumber, name}});
}

// NaN or an infinity if this is what encode_number made, else 0.
double special_number(const Json& value) {
  const Json* name = value.size() == 1 ? value.find(kNumber) : nullptr;
  if (name == nullptr || !name->is_string()) return 0;
  if (name->as_string() == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (name->as_string() == "inf") return std::numeric_limits<double>::infinity();
  if (name->as_string() == "-inf") return -std::numeric_limits<double>::infinity();
  return 0;
}

template <typename Leaf>
Json rebuild(const Json& value, const Leaf& leaf) {
  if (const Json replaced = leaf(value); !replaced.is_null()) return replaced;
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& element : value.as_array()) out.push_back(rebuild(element, leaf));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, member] : value.as_object()) out.set(key, rebuild(member, leaf));
  return out;
}

}  // namespace

Json encode_state(const Json& state) {
  return rebuild(state, [](const Json& value) {
    const bool special = value.is_number() && !std::isfinite(value.as_double());
    return special ? encode_number(value.as_double()) : Json();
  });
}

Json decode_state(const Json& encoded) {
  return rebuild(encoded, [](const Json& value) {
    const double special = value.is_object() ? special_number(value) : 0;
    return special != 0 ? Json(special) : Json();
  });
}

}  // namespace xrun
