#pragma once
// The base weights of a model that are trained, chosen by patterns of their names.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

struct ModelConfig;

// Returns true if a weight is trained: a pattern matches its whole name, or there is no pattern. In
// a pattern * stands for any run of characters, dots included.
bool is_trained(const std::vector<std::string>& patterns, const std::string& name);

// Returns the elements of the weights that are trained, as a double (weight_layout.h).
double trained_elements(const ModelConfig& config, const std::vector<std::string>& patterns);

// Throws UsageError for the first pattern that matches no weight of the model, with the nearest
// names.
void check_train_patterns(const ModelConfig& config, const std::vector<std::string>& patterns);

}  // namespace xrun
