#pragma once
// Filters and tests of the environment, found by name.

#include <map>
#include <string_view>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

using FilterBody = Value (*)(Interpreter&, const Value& input, Arguments&);
using FilterTable = std::map<std::string_view, FilterBody>;
using TestBody = bool (*)(Interpreter&, const Value& input, Arguments&);
using TestTable = std::map<std::string_view, TestBody>;

const FilterTable& text_filters();
const FilterTable& number_filters();
const FilterTable& list_filters();
const TestTable& tests();

// Returns the filter or test of a name, or null.
FilterBody find_filter(std::string_view name);
TestBody find_test(std::string_view name);

// Returns the attribute that a filter's `attribute` argument names: an index, or a dotted path of
// names and indices. Missing parts are undefined.
Value path_attribute(Interpreter& interpreter, const Value& item, const Value& path);

// Returns the value by which the sorting filters compare: texts without case unless asked.
Value sort_key(const Value& value, bool case_sensitive);

}  // namespace xrun::jinja
