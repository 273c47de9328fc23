#pragma once
// A resolved config as a flat list: one entry a value, with where it came from.

#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

struct Setting {
  std::string key;     // "optim.lr", "data.1.path" (list elements count from 1)
  Json value;          // a list of plain values, and an empty list or object, is one value
  std::string origin;  // "recipes/dpo.lua:10", "--set", "default"; "" if unknown
};

// Returns the values in the order of `config`, whose kinds nobody checked: other than objects give
// nothing. An origin stands under its value's key, under a list's first element, or further up.
std::vector<Setting> flat_settings(const Json& config, const Json& origins);

}  // namespace xrun
