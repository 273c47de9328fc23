#pragma once
// A row's data as the template sees it.

#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// Converts the data of one rendering; every text in it is a message's. Not for several threads.
class RowValues {
 public:
  // Throws Fault if the data nest deeper than kMaxValueDepth.
  Value value(const Json& json) { return value(json, 0); }

  // The messages as transformers hands them to a template: members that are null are dropped, and
  // reasoning, which goes by three names, is found under each that a template reads. Throws Error
  // if this is no conversation.
  Value messages(const Json& json);

 private:
  Value value(const Json& json, int depth);
  Value message(const Json& json);
  Value key(std::string_view name);  // one value for all dicts that have the key

  std::vector<Value> keys_;
};

}  // namespace xrun::jinja
