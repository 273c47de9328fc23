// repeat_interleave trusts an output_size: if the repeats are negative or have another sum, it
// writes past the end of its result. Dividing the lowest integer by -1 traps. Two options make
// sparse gradients, whose operators check little.

#include "lua/tensor/op_arguments.h"

#include <ATen/ops/eq.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>

#include <cstdint>
#include <limits>

#include "core/base/error.h"
#include "core/base/file_access.h"
#include "lua/tensor/op_table.h"

namespace xrun {

namespace {

// Returns the argument with this name; None if the overload has none or the call does not give it.
c10::IValue argument_of(const OpOverload& overload, const torch::jit::Stack& arguments,
                        std::string_view name) {
  for (size_t i = 0; i < overload.arguments.size(); ++i) {
    if (overload.arguments[i].name == name) return arguments[i];
  }
  return {};
}

void check_repeats(const OpOverload& overload, const torch::jit::Stack& arguments) {
  XRUN_CHECK(argument_of(overload, arguments, "output_size").isNone(),
             "output_size is not accepted: a wrong one would write past the end of the result; "
             "leave it out, the repeats give the size");
}

at::Tensor as_tensor(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::scalar_tensor(value.toScalar(), at::kLong);
}

bool is_integer(const c10::IValue& value) {
  if (value.isTensor()) return c10::isIntegralType(value.toTensor().scalar_type(), false);
  return value.isInt();
}

void check_division(const OpOverload&, const torch::jit::Stack& arguments) {
  if (arguments.size() < 2 || !is_integer(arguments[0]) || !is_integer(arguments[1])) return;
  const at::Tensor a = as_tensor(arguments[0]), b = as_tensor(arguments[1]);
  const at::ScalarType type = !arguments[0].isTensor()   ? b.scalar_type()
                              : !arguments[1].isTensor() ? a.scalar_type()
                                                         : at::result_type(a, b);
  if (type != at::kInt && type != at::kLong) return;  // smaller types are divided as int
  const int64_t lowest =
      type == at::kInt ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  const at::Tensor traps = at::logical_and(a.eq(lowest), b.eq(-1));
  XRUN_CHECK(!traps.any().item<bool>(), "{} divided by -1 is beyond the range of {}", lowest,
             type == at::kInt ? "i32" : "i64");
}

// Without a rounding mode the quotient of integers is a floating-point number, which never traps.
void check_rounded_division(const OpOverload& overload, const torch::jit::Stack& arguments) {
  if (argument_of(overload, arguments, "rounding_mode").isNone()) return;
  check_division(overload, arguments);
}

void check_sparse(const OpOverload& overload, const torch::jit::Stack& arguments) {
  if (!file_access_limited()) return;
  for (const char* const name : {"sparse", "sparse_grad"}) {
    const c10::IValue sparse = argument_of(overload, arguments, name);
    XRUN_CHECK(!sparse.isBool() || !sparse.toBool(),
               "{} = true is not for a recipe that is not trusted\nhint: --trusted runs it without "
               "limits",
               name);
  }
}

}  // namespace

OpArgumentCheck op_argument_check(std::string_view name) {
  if (name.ends_with('_')) name.remove_suffix(1);  // in place
  if (name == "repeat_interleave") return check_repeats;
  if (name == "div" || name == "divide") return check_rounded_division;
  for (const char* const divides : {"floor_divide", "remainder", "fmod", "gcd", "lcm"}) {
    if (name == divides) return check_division;
  }
  if (name == "embedding" || name == "gather") return check_sparse;
  return nullptr;
}

}  // namespace xrun
