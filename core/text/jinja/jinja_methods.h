#pragma once
// Methods of the template's values, found by name.

#include <map>
#include <string_view>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// What a method does with its object. Null: Python has it, a template cannot call it.
using MethodBody = Value (*)(Interpreter&, const Value& self, Arguments&);
using MethodTable = std::map<std::string_view, MethodBody>;

const MethodTable& text_methods();     // str
const MethodTable& text_predicates();  // str: isdigit, islower, ...
const MethodTable& list_methods();     // list, tuple
const MethodTable& dict_methods();     // dict

// Returns text.format(arguments): {}, {0}, {name.attribute[key]!r:specification}, doubled braces.
Value format_braces(Interpreter& interpreter, const Value& text, Arguments& arguments);

}  // namespace xrun::jinja
