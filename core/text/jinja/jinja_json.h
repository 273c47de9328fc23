#pragma once
// Converts a row's JSON to template values.

#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// Converts the data of one rendering; all its strings have the message's origin. Not thread-safe.
class RowValues {
 public:
  // Throws Fault if the data are nested deeper than kMaxValueDepth.
  Value value(const Json& json) { return value(json, 0); }

  // Converts messages as transformers does: null members are dropped, and reasoning under any of
  // its three names is available as `thinking` and `reasoning_content`. Throws Error if the JSON is
  // not a conversation.
  Value messages(const Json& json);

 private:
  Value value(const Json& json, int depth);
  Value message(const Json& json);
  Value key(std::string_view name);  // shared by all dicts with the key

  std::vector<Value> keys_;
};

}  // namespace xrun::jinja
