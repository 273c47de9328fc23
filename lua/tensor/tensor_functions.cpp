// Functions over tensors that are not operators: tensors from lists, scopes, gradient mode.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/trunc.h>

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/tensor/dtype_names.h"
#include "lua/tensor/op_value.h"
#include "lua/tensor/tensor.h"
#include "lua/tensor/tensor_class.h"

namespace xrun {
namespace {

// ---- xrun.tensor

struct ListShape {
  std::vector<int64_t> sizes;
  bool all_whole = true, all_bool = true, any_bool = false;
};

// Passes every element of a nested list to `leaf`, in order; checks that the lists of a level have
// equal lengths.
template <class Leaf>
void walk(lua_State* L, int i, size_t depth, ListShape& shape, bool first, const Leaf& leaf) {
  // Depth first; the first path down fixes the number of dimensions.
  if (lua_type(L, i) != LUA_TTABLE) {
    XRUN_CHECK(depth == shape.sizes.size(), "got a number, wanted a list of {}",
               shape.sizes[std::min(depth, shape.sizes.size() - 1)]);
    return leaf(i);
  }
  luaL_checkstack(L, 4, "lists are nested too deep");
  const auto length = static_cast<int64_t>(lua_objlen(L, i));
  if (first && depth == shape.sizes.size()) {
    // The limit also ends a table that contains itself.
    XRUN_CHECK(depth < 64, "lists are nested deeper than 64 levels");
    shape.sizes.push_back(length);
  }
  XRUN_CHECK(depth < shape.sizes.size(), "got a list, wanted a number");
  // The first list of each depth fixes the size.
  XRUN_CHECK(shape.sizes[depth] == length, "lists of {} and of {} elements in dimension {}",
             shape.sizes[depth], length, depth);
  for (int64_t k = 1; k <= length; ++k) {
    lua_rawgeti(L, i, static_cast<int>(k));
    walk(L, lua_gettop(L), depth + 1, shape, first && k == 1, leaf);
    lua_pop(L, 1);
  }
}

double element(lua_State* L, int i, ListShape& shape) {
  const ValueKind kind = value_kind(L, i);
  shape.any_bool = shape.any_bool || kind == ValueKind::kBool;
  shape.all_bool = shape.all_bool && kind == ValueKind::kBool;
  shape.all_whole = shape.all_whole && (kind == ValueKind::kInt || kind == ValueKind::kInt64);
  if (kind == ValueKind::kBool) return lua_toboolean(L, i);
  if (kind == ValueKind::kTensor) return tensor_if(L, i)->item().toDouble();
  if (kind > ValueKind::kInt64 || kind < ValueKind::kInt) {
    throw Error(fmt::format("a list's element: got {}, wanted a number or a boolean",
                            describe_value(L, i)));
  }
  return to_ivalue(L, i, kind, ArgumentKind::kFloat, 0).toDouble();
}

// Converts to `type` as to() does, which wraps integers; throws Error instead.
at::Tensor converted(const at::Tensor& made, at::ScalarType type) {
  const at::Tensor out = made.to(type);
  // trunc: as in PyTorch, a fraction is cut off.
  XRUN_CHECK(!c10::isIntegralType(type, /*includeBool=*/false) ||
                 at::equal(out.to(made.scalar_type()), at::trunc(made)),
             "a number of the list is beyond the range of {}", short_dtype_name(type));
  return out;
}

// Makes a tensor of a nested list: of `dtype` if given, else i64 if all numbers are whole, f32 for
// other numbers, bool for booleans.
at::Tensor tensor_from_list(lua_State* L, int i, std::optional<at::ScalarType> dtype) {
  ListShape shape;
  std::vector<double> values;
  walk(L, i, 0, shape, true, [&](int k) { values.push_back(element(L, k, shape)); });
  // An empty list is f32, as torch.tensor([]) is.
  const bool empty = values.empty();
  at::ScalarType type = at::kFloat;
  if (!empty && shape.all_whole) type = at::kLong;
  if (!empty && shape.all_bool) type = at::kBool;
  XRUN_CHECK(shape.all_bool || !shape.any_bool, "a list mixes numbers and booleans");
  // Through f64, which holds every number of Lua.
  at::Tensor made = at::empty(shape.sizes, at::TensorOptions().dtype(at::kDouble));
  if (type == at::kLong) {
    // A double would round 1LL literals above 2^53.
    made = at::empty(shape.sizes, at::TensorOptions().dtype(at::kLong));
    auto* out = made.mutable_data_ptr<int64_t>();
    walk(L, i, 0, shape, true,
         [&](int k) { *out++ = to_ivalue(L, k, value_kind(L, k), ArgumentKind::kInt, 0).toInt(); });
    return converted(made, dtype.value_or(type));
  }
  std::copy(values.begin(), values.end(), made.mutable_data_ptr<double>());
  return converted(made, dtype.value_or(type));  // straight to f64, not through f32
}

int make_tensor(lua_State* L) {
  const Options options(L, 2);
  const auto options_of = [&](const char* key, auto read) {
    const auto name = options.find<std::string>(key);
    if (!name) return decltype(read(*name)){};
    const auto value = read(*name);
    XRUN_CHECK(value.has_value(), "option `{}`: \"{}\" is not a {}", key, *name, key);
    return value;
  };
  const auto type = options_of("dtype", dtype_of);
  at::Tensor made;
  if (const at::Tensor* source = tensor_if(L, 1)) {
    // A copy, as torch.tensor makes one: later changes of the source must not show.
    made = source->detach().clone();
    if (type) made = made.to(*type);
  } else {
    made = tensor_from_list(L, 1, type);
  }
  if (const auto device = options_of("device", device_of)) {
    check_device(*device);
    made = made.to(*device);
  }
  if (options.get<bool>("requires_grad")) made.set_requires_grad(true);
  return push(L, made), 1;
}

// ---- calls under a guard

// Calls the function at index 1 with what follows; returns the number of results, from index 1.
int call_first(lua_State* L) {
  if (lua_type(L, 1) != LUA_TFUNCTION) throw_argument(L, 1, nullptr, "a function");
  protected_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

int no_grad(lua_State* L) {
  const at::NoGradGuard guard;
  return call_first(L);
}

int scope(lua_State* L) {
  TensorScope tensors(L);
  const int results = call_first(L);
  // Results move to the scope around this one before the rest is closed.
  for (int i = 1; i <= results; ++i) tensors.keep(L, i);
  return results;
}

int keep(lua_State* L) {
  // push adds the handle to the innermost scope; it is moved out of it below.
  push(L, read_tensor(L, 1, "tensor").detach());
  LuaState::of(L).service<TensorLedger>().move_to_root(
      *static_cast<TensorBox*>(lua_touserdata(L, -1)));
  return 1;
}

}  // namespace

void open_tensor_functions(LuaState& state) {
  state.function(
      "tensor",
      {{"values", "table|number|boolean"},
       {"options?",
        "table",
        {{"dtype", "string"}, {"device", "string"}, {"requires_grad", "boolean", false}}}},
      {"Tensor"},
      "Makes a tensor of a nested list: i64 if all numbers are whole (2 is 2.0 in Lua), else "
      "f32; booleans make bool. dtype = \"f32\" or xrun.f(1) override that.",
      make_tensor);
  state.function(
      "no_grad", {{"f", "function"}, {"...", "any"}}, {{"any", "..."}},
      "Calls the function with the arguments, recording no gradients; returns its results.",
      no_grad);
  state.function(
      "scope", {{"f", "function"}, {"...", "any"}}, {{"any", "..."}},
      "Calls the function and then closes every tensor made inside, except those returned "
      "(also in returned tables).",
      scope);
  state.function("keep", {{"tensor", "Tensor"}}, {"Tensor"},
                 "Returns a detached tensor that outlives the current step or scope.", keep);
  state.function("manual_seed", {{"seed", "integer"}}, {},
                 "Seeds LibTorch's CPU generator. A run reseeds it before every micro-batch.",
                 [](lua_State* L) {
                   at::Generator generator = at::detail::getDefaultCPUGenerator();
                   generator.set_current_seed(static_cast<uint64_t>(arg<int64_t>(L, 1, "seed")));
                   return 0;
                 });
  for (const std::string& name : dtype_names()) {
    push(state, name);
    state.value(name, "string", "The element type \"" + name + "\".");
  }
  for (const char* name : {"channels_last", "contiguous_format", "preserve_format", "strided"}) {
    push(state, name);
    state.value(name, "string", "A memory format or layout of tensors, by name.");
  }
}

}  // namespace xrun
