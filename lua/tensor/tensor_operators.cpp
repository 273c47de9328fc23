// Lua's operators on tensors. Arithmetic makes tensors. A comparison can only give one boolean,
// because Lua converts its result, so it is an error for tensors of several elements.

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/tensor/op_table.h"
#include "lua/tensor/tensor.h"
#include "lua/tensor/tensor_class.h"

namespace xrun {
namespace {

const at::Tensor& left_operand(lua_State* L) { return read_tensor(L, 1, nullptr); }

int length(lua_State* L) {
  const at::Tensor& tensor = left_operand(L);
  XRUN_CHECK(tensor.dim() > 0, "{} has no length; it is one number", describe_tensor(tensor));
  push(L, tensor.size(0));
  return 1;
}

bool is_tensor(lua_State* L, int i) { return class_of(L, i) == &class_info<at::Tensor>; }

int add(lua_State* L) {
  // Lua calls the metamethod with the operands as written; add commutes.
  if (!is_tensor(L, 1)) lua_insert(L, 1);  // 1 + t
  return call_aten(L, "add");
}

int multiply(lua_State* L) {
  if (!is_tensor(L, 1)) lua_insert(L, 1);
  return call_aten(L, "mul");
}

int subtract(lua_State* L) {
  if (is_tensor(L, 1)) return call_aten(L, "sub");
  lua_insert(L, 1);
  // rsub(t, 1) is 1 - t.
  return call_aten(L, "rsub");
}

int divide(lua_State* L) {
  if (is_tensor(L, 1)) return call_aten(L, "div");
  // 1 / t is t's reciprocal times 1.
  lua_insert(L, 1);
  push(L, left_operand(L).reciprocal());
  lua_replace(L, 1);
  return call_aten(L, "mul");
}

int modulo(lua_State* L) { return call_aten(L, "remainder"); }
int power(lua_State* L) { return call_aten(L, "pow"); }

int negate(lua_State* L) {
  lua_settop(L, 1);  // Lua passes the operand twice
  return call_aten(L, "neg");
}

int concat(lua_State* L) {
  std::string text;
  XRUN_CHECK(!(is_tensor(L, 1) && is_tensor(L, 2)),
             "`..` joins text; xrun.cat({{a, b}}, dim) joins tensors");
  for (int i = 1; i <= 2; ++i) {
    if (lua_isstring(L, i)) {
      text += string_at(L, i);
    } else {
      const at::Tensor* tensor = tensor_if(L, i);
      text += tensor == nullptr ? describe_value(L, i) : tensor_text(*tensor);
    }
  }
  push(L, text);
  return 1;
}

int equal(lua_State* L) {
  const at::Tensor *a = tensor_if(L, 1), *b = tensor_if(L, 2);
  // rawequal would not do: one tensor may have two handles.
  if (a != nullptr && b != nullptr && a->is_same(*b)) return push(L, true), 1;
  // Not false: a comparison meant by value would go wrong without notice.
  throw Error(
      "`==` between two tensors gives one boolean, never a tensor"
      "\nhint: a:eq(b) compares element by element, xrun.equal(a, b) gives one boolean");
}

template <const char* Name>
int ordered(lua_State* L) {
  const at::Tensor &a = read_tensor(L, 1, nullptr), &b = read_tensor(L, 2, nullptr);
  XRUN_CHECK(a.numel() == 1 && b.numel() == 1,
             "`<` and `<=` give one boolean, and these have {} and {} elements"
             "\nhint: :lt, :le, :gt, :ge compare element by element",
             a.numel(), b.numel());
  call_aten(L, Name);
  push(L, tensor_if(L, -1)->item().toBool());
  return 1;
}

constexpr char kLess[] = "lt", kLessEqual[] = "le";

}  // namespace

void add_tensor_operators(TensorMembers tensor) {
  const std::vector<LuaParameter> both = {{"a", "any"}, {"b", "any"}};
  tensor.metamethod<add>("__add", both, {"Tensor"}, "a + b");
  tensor.metamethod<subtract>("__sub", both, {"Tensor"}, "a - b");
  tensor.metamethod<multiply>("__mul", both, {"Tensor"}, "a * b, element by element");
  tensor.metamethod<divide>("__div", both, {"Tensor"}, "a / b, true division");
  tensor.metamethod<modulo>("__mod", both, {"Tensor"}, "a % b with the sign of b");
  tensor.metamethod<power>("__pow", both, {"Tensor"}, "a ^ b");
  tensor.metamethod<negate>("__unm", {{"a", "Tensor"}}, {"Tensor"}, "-a");
  tensor.metamethod<concat>("__concat", both, {"string"}, "Text .. tensor, for messages.");
  tensor.metamethod<length>("__len", {{"a", "Tensor"}}, {"integer"}, "#a, the size of dimension 0");
  tensor.metamethod<ordered<kLess>>("__lt", both, {"boolean"}, "a < b for tensors of one element");
  tensor.metamethod<ordered<kLessEqual>>("__le", both, {"boolean"},
                                         "a <= b for tensors of one element");
  tensor.metamethod<equal>(
      "__eq", both, {"boolean"},
      "true for two handles of one tensor; other tensors are an error: use :eq or xrun.equal");
}

}  // namespace xrun
