#pragma once
// A config.json with one key changed, and the error that it gives.

#include "core/base/json.h"
#include "core/model/weights/hf_config.h"
#include "tests/error_of.h"

namespace xrun {

inline Json changed(Json config, const char* key, const char* json) {
  config.set(key, parse_json(json, key));
  return config;
}

inline ModelConfig parse_config(const Json& config, const Json& generation = Json::object()) {
  return parse_model_config(config, generation, "config.json");
}

// Returns the message of the refusal; "" if the config is good.
inline std::string config_error(const Json& config) {
  return error_of([&] { parse_config(config); });
}

}  // namespace xrun
