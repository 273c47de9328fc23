#pragma once
// Python's operators and iteration on template values. Implemented in jinja_compare.cpp,
// jinja_arithmetic.cpp and jinja_sequences.cpp.

#include <string_view>
#include <vector>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// Python's ==. Charges the budget for every comparison.
bool equal(const Value& a, const Value& b, Budget& budget);
// Python's <. Throws Fault if the types have no order.
//   symbol  the operator that the message names: > and <= are tested with the sides exchanged
bool less(const Value& a, const Value& b, Budget& budget, const char* symbol = "<");
// Python's `in`.
bool contains(const Value& container, const Value& item, Budget& budget);
// Returns the items of a for loop: list items, keys of a dict, characters of a string, none for an
// undefined value. A generator is empty afterwards. Throws Fault for other types.
std::vector<Value> iterate(const Value& value, Budget& budget);

// Returns a op b for + - * / // % **. Throws Fault with Python's message on unsupported types and
// on division by zero, and if an integer overflows 64 bits. str % values is not supported.
Value apply_binary(std::string_view op, const Value& a, const Value& b, Budget& budget);

// Returns -a if `negative`, else +a. Throws Fault unless a is a number, and for -INT64_MIN.
Value apply_sign(bool negative, const Value& a);

// Returns a op b for == != < <= > >= in, "not in".
bool compare(std::string_view op, const Value& a, const Value& b, Budget& budget);

// Returns value[start:stop:step] of a string or list; each bound is an integer or None.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget);

}  // namespace xrun::jinja
