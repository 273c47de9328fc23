#pragma once
// Python's operators on template values.

#include <string_view>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// Returns a op b for + - * / // % **. Throws Fault with Python's words on types that do not fit, on
// a division by zero, and where an integer leaves 64 bits.
Value apply_binary(std::string_view op, const Value& a, const Value& b, Budget& budget);

// Returns -a (or +a).
Value apply_sign(bool negative, const Value& a);

// Returns whether a op b for == != < <= > >= in, "not in".
bool compare(std::string_view op, const Value& a, const Value& b, Budget& budget);

// Returns value[start:stop:step] of a text or list; each bound an integer or None.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget);

// Returns text % values (a tuple, a dict, or one value), printf style.
Value format_percent(const Value& text, const Value& values, Budget& budget);

}  // namespace xrun::jinja
