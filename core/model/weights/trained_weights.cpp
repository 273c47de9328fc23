// A pattern is read as a shell would: fnmatch without path rules.

#include "core/model/weights/trained_weights.h"

#include <fnmatch.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/weight_layout.h"

namespace xrun {

namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t dot = std::min(name.find('.', begin), name.size());
    parts.push_back(name.substr(begin, dot - begin));
    begin = dot + 1;
  }
  return parts;
}

// The components of all names, without numbers: "self_attn", "q_proj", ...
std::vector<std::string> components_of(const std::vector<WeightSpec>& specs) {
  std::vector<std::string> all;
  for (const WeightSpec& spec : specs) {
    for (const std::string& part : parts_of(spec.name)) {
      // Layer numbers would drown the names in the message.
      const bool number = part.find_first_not_of("0123456789") == std::string::npos;
      if (!number && std::find(all.begin(), all.end(), part) == all.end()) all.push_back(part);
    }
  }
  return all;
}

// The pattern with its first unknown component replaced by the nearest known one; "" if none is
// near.
std::string nearest_pattern(const std::string& pattern,
                            const std::vector<std::string>& components) {
  std::vector<std::string> parts = parts_of(pattern);
  for (std::string& part : parts) {
    const bool known = std::any_of(components.begin(), components.end(),
                                   [&](const std::string& one) { return matches(part, one); });
    // A wildcard has no nearest name.
    if (known || part.find_first_of("*?[") != std::string::npos) continue;
    const std::string nearest = nearest_name(part, components);
    if (nearest.empty()) continue;
    part = nearest;
    return joined(parts, ".");
  }
  return "";
}

}  // namespace

bool is_trained(const std::vector<std::string>& patterns, const std::string& name) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

double trained_elements(const ModelConfig& config, const std::vector<std::string>& patterns) {
  double sum = 0;
  for (const WeightSpec& spec : weight_specs(config)) {
    if (is_trained(patterns, spec.name)) sum += spec.elements();
  }
  return sum;
}

void check_train_patterns(const ModelConfig& config, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  const std::vector<WeightSpec> specs = weight_specs(config);
  for (const std::string& pattern : patterns) {
    const bool found = std::any_of(specs.begin(), specs.end(), [&](const WeightSpec& spec) {
      return matches(pattern, spec.name);
    });
    if (found) continue;
    // A tied head has no weight of its own.
    if (config.tied && matches(pattern, config.names.head + ".weight")) {
      throw UsageError(
          fmt::format("train: \"{}\" matches the head, which is tied to {}; name that instead",
                      pattern, specs.front().name));
    }
    const std::vector<std::string> components = components_of(specs);
    const std::string nearest = nearest_pattern(pattern, components);
    throw UsageError(fmt::format(
        "train: \"{}\" matches none of the model's {} weights{}; their names are built from these "
        "parts: {}; for example {}",
        pattern, specs.size(),
        nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest),
        joined(components, ", "), specs.at(specs.size() / 2).name));
  }
}

}  // namespace xrun
