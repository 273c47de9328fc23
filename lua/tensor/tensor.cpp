// Class Tensor: the members that are not operators. Every other method is an operator of ATen,
// found at its first use and then cached in the method table.

#include "lua/tensor/tensor.h"

#include "core/base/error.h"
#include "core/base/strings.h"
#include "lua/state/args.h"
#include "lua/tensor/dtype_names.h"
#include "lua/tensor/op_rights.h"
#include "lua/tensor/op_table.h"
#include "lua/tensor/tensor_class.h"

namespace xrun {
namespace {

const at::Tensor& self(lua_State* L) { return read_tensor(L, 1, nullptr); }

int gc(lua_State* L) {
  auto* box = static_cast<TensorBox*>(lua_touserdata(L, 1));
  // Closed first, so that the ledger counts its bytes once.
  LuaState::of(L).service<TensorLedger>().close(*box);
  box->~TensorBox();
  return 0;
}

int close(lua_State* L) {
  // A closed tensor is closed again without an error; another value is refused by self().
  if (class_of(L, 1) != &class_info<at::Tensor>) self(L);
  LuaState::of(L).service<TensorLedger>().close(*static_cast<TensorBox*>(lua_touserdata(L, 1)));
  return 0;
}

int tostring(lua_State* L) {
  const at::Tensor* tensor = tensor_if(L, 1);
  push(L, tensor == nullptr ? describe_value(L, 1) : tensor_text(*tensor));
  return 1;
}

// ---- reading fields and elements

int find_method(lua_State* L) {
  const std::string name = read_string(L, 2, nullptr);
  const OpPacket* packet = find_public_op(name);
  if (packet == nullptr) {
    std::vector<std::string> known = public_op_names();
    for (const DocEntry& entry : doc_entries()) {
      if (entry.name.starts_with("Tensor:") || entry.name.starts_with("Tensor.")) {
        // Our own members before operators: nearest_name prefers earlier entries.
        known.insert(known.begin(), entry.name.substr(7));
      }
    }
    const std::string near = nearest_name(name, known);
    throw Error(fmt::format("Tensor has no method or property `{}`{}", name,
                            near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
  }
  check_op_rights("aten", name);
  // The operator becomes a method of the class.
  push_methods(L, &class_info<at::Tensor>);
  push(L, name);
  push_binding(L, &packet->as_method);
  lua_pushvalue(L, -1);
  lua_insert(L, 3);
  // Into the method table: the next x:name() does not come here.
  lua_rawset(L, -3);
  lua_settop(L, 3);
  return 1;
}

int get_other(lua_State* L) {
  const at::Tensor& tensor = self(L);
  // t[":"] is the one string that is an index.
  if (lua_type(L, 2) == LUA_TSTRING && string_at(L, 2) != ":") {
    return find_method(L);
  }
  index_tensor(L, tensor, 2);
  return 1;
}

int set_other(lua_State* L) {
  // 0: no element, so the class reports an unknown property.
  if (lua_type(L, 2) == LUA_TSTRING && string_at(L, 2) != ":") return 0;
  assign_index(L, self(L), 2, 3);
  return 1;
}

// ---- numbers and lists

void push_number(lua_State* L, const at::Scalar& value) {
  if (value.isBoolean()) {
    push(L, value.toBool());
  } else {
    XRUN_CHECK(!value.isComplex(), "Lua has no complex numbers; take its .real and .imag");
    push(L, value.toDouble());
  }
}

int item(lua_State* L) {
  push_number(L, self(L).item());
  return 1;
}

void push_list(lua_State* L, const at::Tensor& tensor) {
  if (tensor.dim() == 0) return push_number(L, tensor.item());
  luaL_checkstack(L, 4, "too many dimensions");
  lua_createtable(L, static_cast<int>(tensor.size(0)), 0);
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    check_interrupt(L);
    push_list(L, tensor[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

int tolist(lua_State* L) {
  // One copy to the host instead of one per element.
  push_list(L, self(L).detach().cpu());
  return 1;
}

int size(lua_State* L) {
  const at::Tensor& tensor = self(L);
  if (lua_isnoneornil(L, 2)) {
    push(L, tensor.sizes().vec());
  } else {
    push(L, tensor.size(arg<int64_t>(L, 2, "dim")));
  }
  return 1;
}

// ---- properties

int get_shape(lua_State* L) { return push(L, self(L).sizes().vec()), 1; }
int get_dtype(lua_State* L) { return push(L, short_dtype_name(self(L).scalar_type())), 1; }
int get_device(lua_State* L) { return push(L, self(L).device().str()), 1; }
int get_layout(lua_State* L) { return push(L, layout_name(self(L).layout())), 1; }
int get_ndim(lua_State* L) { return push(L, self(L).dim()), 1; }
int get_transposed(lua_State* L) { return push(L, self(L).t()), 1; }
int get_requires_grad(lua_State* L) { return push(L, self(L).requires_grad()), 1; }
int get_is_leaf(lua_State* L) { return push(L, self(L).is_leaf()), 1; }
int get_grad(lua_State* L) { return push(L, self(L).grad()), 1; }

int set_requires_grad(lua_State* L) {
  self(L).set_requires_grad(read_bool(L, 3, "requires_grad"));
  return 0;
}

// nil alone: LibTorch frees a chain of gradients by recursion, which ends in an overflow of the
// stack.
int set_grad(lua_State* L) {
  if (!lua_isnil(L, 3)) throw_argument(L, 3, "grad", "nil, which forgets the gradient");
  // A copy of the handle: mutable_grad needs a non-const tensor.
  at::Tensor tensor = self(L);
  tensor.mutable_grad() = at::Tensor();
  return 0;
}

// ---- methods

int numel(lua_State* L) { return push(L, self(L).numel()), 1; }
int dim(lua_State* L) { return push(L, self(L).dim()), 1; }
int stride(lua_State* L) { return push(L, self(L).strides().vec()), 1; }
int is_contiguous(lua_State* L) { return push(L, self(L).is_contiguous()), 1; }
int element_size(lua_State* L) { return push(L, static_cast<int64_t>(self(L).itemsize())), 1; }

template <at::ScalarType Type>
int convert(lua_State* L) {
  return push(L, self(L).to(Type)), 1;
}

int to_cpu(lua_State* L) { return push(L, self(L).cpu()), 1; }

int requires_grad_in_place(lua_State* L) {
  self(L).set_requires_grad(opt_arg<bool>(L, 2, "requires_grad").value_or(true));
  // The object itself, as methods with a trailing _ return.
  lua_settop(L, 1);
  return 1;
}

int backward(lua_State* L) {
  const at::Tensor& tensor = self(L);
  // t:backward(g), t:backward({ gradient = g }) and both with options.
  const bool gradient_first = tensor_if(L, 2) != nullptr;
  const Options options(L, gradient_first ? 3 : 2);
  std::optional<at::Tensor> gradient = options.find<at::Tensor>("gradient");
  XRUN_CHECK(!gradient_first || !gradient, "the gradient is given twice");
  if (gradient_first) gradient = *tensor_if(L, 2);
  std::vector<at::Tensor> inputs;
  if (options.has("inputs")) {
    options.push_value("inputs");
    XRUN_CHECK(value_kind(L, lua_gettop(L)) == ValueKind::kTensorList,
               "option `inputs`: got {}, wanted a list of tensors", describe_value(L, -1));
    for (size_t k = 1; k <= lua_objlen(L, -1); ++k) {
      lua_rawgeti(L, -1, static_cast<int>(k));
      inputs.push_back(*tensor_if(L, -1));
      lua_pop(L, 1);
    }
  }
  // Without create_graph: a gradient that holds its graph can make such a chain too (set_grad).
  tensor.backward(gradient.value_or(at::Tensor()), options.find<bool>("retain_graph"),
                  /*create_graph=*/false,
                  inputs.empty() ? std::nullopt : std::optional<at::TensorList>(inputs));
  return 0;
}

void add_members(TensorMembers tensor) {
  tensor.property<get_shape>("shape", "integer[]", "The sizes of all dimensions.");
  tensor.property<get_dtype>("dtype", "string",
                             "The element type: \"f32\", \"bf16\", \"i64\", ...");
  tensor.property<get_device>("device", "string", "\"cpu\", \"cuda:0\", ...");
  tensor.property<get_layout>("layout", "string", "\"strided\" for dense tensors.");
  tensor.property<get_ndim>("ndim", "number", "The number of dimensions.");
  tensor.property<get_transposed>("T", "Tensor", "A matrix transposed.");
  tensor.property<get_requires_grad>("requires_grad", "boolean",
                                     "True if gradients flow to it; can be set for a leaf.");
  tensor.property<get_is_leaf>("is_leaf", "boolean",
                               "True if it was made without a recorded operator.");
  tensor.property<get_grad>("grad", "Tensor|nil",
                            "The gradient that backward accumulated; may be set to nil.");
  tensor.method<size>("size", {{"dim?", "integer"}}, {"integer|integer[]"},
                      "One size, or all of them.");
  tensor.method<dim>("dim", {}, {"integer"}, "The number of dimensions.");
  tensor.method<numel>("numel", {}, {"integer"}, "The number of elements.");
  tensor.method<stride>("stride", {}, {"integer[]"}, "Elements between neighbours, by dimension.");
  tensor.method<is_contiguous>("is_contiguous", {}, {"boolean"},
                               "True if the elements are in order and without gaps.");
  tensor.method<element_size>("element_size", {}, {"integer"}, "Bytes of one element.");
  tensor.method<item>("item", {}, {"number|boolean"},
                      "The value of a tensor of one element. Waits for the device.");
  tensor.method<tolist>("tolist", {}, {"table|number"},
                        "All values as nested lists. Waits for the device.");
  tensor.method<backward>(
      "backward",
      {{"gradient?", "Tensor"},
       {"options?",
        "table",
        {{"gradient", "Tensor"}, {"retain_graph", "boolean"}, {"inputs", "Tensor[]"}}}},
      {}, "Accumulates gradients into every leaf that it depends on, or only into `inputs`.");
  tensor.method<requires_grad_in_place>("requires_grad_", {{"wanted?", "boolean"}}, {"Tensor"},
                                        "Sets requires_grad of a leaf and returns it.");
  tensor.method<close>(
      "close", {}, {},
      "Frees the tensor now instead of at a collection; any later use is an error.");
  tensor.method<convert<at::kFloat>>("float", {}, {"Tensor"}, "As f32.");
  tensor.method<convert<at::kDouble>>("double", {}, {"Tensor"}, "As f64.");
  tensor.method<convert<at::kHalf>>("half", {}, {"Tensor"}, "As f16.");
  tensor.method<convert<at::kBFloat16>>("bfloat16", {}, {"Tensor"}, "As bf16.");
  tensor.method<convert<at::kLong>>("long", {}, {"Tensor"}, "As i64.");
  tensor.method<convert<at::kInt>>("int", {}, {"Tensor"}, "As i32.");
  tensor.method<convert<at::kBool>>("bool", {}, {"Tensor"},
                                    "As bool: true for elements that are not 0.");
  tensor.method<to_cpu>("cpu", {}, {"Tensor"}, "On the CPU.");
}

}  // namespace

void open_tensor(LuaState& state) {
  lua_State* L = state;
  open_values(state);
  class_info<at::Tensor>.describe = [](const void* block) {
    return describe_tensor(static_cast<const TensorBox*>(block)->tensor);
  };
  ClassTable table(
      L, &class_info<at::Tensor>, "Tensor",
      "An array of numbers. Every operator of ATen is a method: dims and indices count "
      "from 0, keyword arguments are a last table. t[i], t[{i, {a, b}}] index it.");
  add_members({table});
  add_tensor_operators({table});
  table.add_setter("requires_grad", nullptr, plain<set_requires_grad>);
  table.add_setter("grad", nullptr, plain<set_grad>);
  // The fallbacks of class.cpp, under keys that no recipe can write.
  table.add_setter("\1get", nullptr, plain<get_other>);
  table.add_setter("\1set", nullptr, plain<set_other>);
  table.add_raw("__gc", gc);
  table.add_raw("__tostring", tostring);
  open_tensor_functions(state);
  open_ops(state);
}

}  // namespace xrun
