#pragma once
// Argument checks that ATen's operators lack: without them some arguments crash the process.

#include <ATen/core/stack.h>

#include <string_view>

namespace xrun {

struct OpOverload;

// Throws Error if these arguments must not reach the operator.
using OpArgumentCheck = void (*)(const OpOverload& overload, const torch::jit::Stack& arguments);

// Returns the check for an operator's arguments; null for nearly all operators.
//   name  without its namespace
OpArgumentCheck op_argument_check(std::string_view name);

}  // namespace xrun
