// Converts Lua values to IValue, once the overload is chosen, and results back. 2 is 2.0 in Lua: a
// whole double becomes an int where the schema takes a Scalar, so that integer tensors stay
// integer.

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/tensor/dtype_names.h"
#include "lua/tensor/op_value.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

int64_t integer(lua_State* L, int i) {
  int64_t value = 0;
  // An int64 literal such as 1LL keeps all its bits.
  if (lua_type(L, i) == kLuaCData && read_cdata(L, i, &value)) return value;
  return static_cast<int64_t>(lua_tonumber(L, i));
}

double real(lua_State* L, int i) {
  // xrun.f(1) is a userdata.
  if (lua_type(L, i) == LUA_TUSERDATA) return read_forced_float(L, i);
  if (lua_type(L, i) == kLuaCData) return static_cast<double>(integer(L, i));
  return lua_tonumber(L, i);
}

at::Scalar scalar(lua_State* L, int i, ValueKind kind) {
  switch (kind) {
    case ValueKind::kInt:
    case ValueKind::kInt64: return integer(L, i);
    case ValueKind::kBool: return lua_toboolean(L, i) != 0;
    case ValueKind::kTensor:
      // item() leaves the graph; that must be visible in the recipe.
      XRUN_CHECK(!tensor_if(L, i)->requires_grad(),
                 "wanted a number; {} would lose its gradient\nhint: :item() drops it on purpose",
                 describe_tensor(*tensor_if(L, i)));
      return tensor_if(L, i)->item();
    default: return real(L, i);
  }
}

template <class Element>
void each(lua_State* L, int i, Element element) {
  const size_t length = lua_objlen(L, i);
  for (size_t k = 1; k <= length; ++k) {
    lua_rawgeti(L, i, static_cast<int>(k));
    element(lua_gettop(L));
    lua_pop(L, 1);
  }
}

c10::IValue int_list(lua_State* L, int i, ValueKind got, int count) {
  c10::List<int64_t> list;
  if (got == ValueKind::kInt || got == ValueKind::kInt64) {
    list.resize(static_cast<size_t>(std::max(count, 1)), integer(L, i));  // int[N] takes one int
  } else {
    each(L, i, [&](int k) { list.push_back(integer(L, k)); });
  }
  return list;
}

c10::IValue tensor_list(lua_State* L, int i, bool with_none) {
  // xrun.none is an absent entry, as in advanced indexing.
  if (with_none) {
    c10::List<std::optional<at::Tensor>> list;
    each(L, i, [&](int k) {
      const at::Tensor* tensor = tensor_if(L, k);
      list.push_back(tensor == nullptr ? std::nullopt : std::optional<at::Tensor>(*tensor));
    });
    return list;
  }
  c10::List<at::Tensor> list;
  each(L, i, [&](int k) { list.push_back(*tensor_if(L, k)); });
  return list;
}

c10::IValue number_list(lua_State* L, int i, ArgumentKind wanted) {
  if (wanted == ArgumentKind::kFloatList) {
    c10::List<double> list;
    each(L, i, [&](int k) { list.push_back(real(L, k)); });
    return list;
  }
  c10::impl::GenericList list(c10::NumberType::get());
  each(L, i, [&](int k) { list.push_back(c10::IValue(scalar(L, k, value_kind(L, k)))); });
  return list;
}

at::Tensor wrapped(lua_State* L, int i, ValueKind got) {
  at::Tensor number = c10::scalar_to_tensor(scalar(L, i, got));
  // As in Python: a number does not promote the other operand's type.
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

}  // namespace

c10::IValue to_ivalue(lua_State* L, int i, ValueKind got, ArgumentKind wanted, int count) {
  // None: the argument is optional, or match_overload would have refused it.
  if (got == ValueKind::kNone || got == ValueKind::kNil) return {};
  const auto text = [&] { return string_at(L, i); };
  switch (wanted) {
    case ArgumentKind::kTensor:
      return got == ValueKind::kTensor ? *tensor_if(L, i) : wrapped(L, i, got);
    case ArgumentKind::kScalar: return scalar(L, i, got);
    case ArgumentKind::kInt: return integer(L, i);
    case ArgumentKind::kFloat: return real(L, i);
    case ArgumentKind::kBool: return lua_toboolean(L, i) != 0;
    case ArgumentKind::kString: return read_string(L, i, nullptr);
    case ArgumentKind::kScalarType: return static_cast<int64_t>(*dtype_of(text()));
    case ArgumentKind::kLayout: return *layout_of(text());
    case ArgumentKind::kMemoryFormat: return *memory_format_of(text());
    case ArgumentKind::kDevice: {
      const at::Device device = *device_of(text());
      check_device(device);
      return device;
    }
    case ArgumentKind::kIntList: return int_list(L, i, got, count);
    case ArgumentKind::kFloatList:
    case ArgumentKind::kScalarList: return number_list(L, i, wanted);
    case ArgumentKind::kTensorList: return tensor_list(L, i, false);
    case ArgumentKind::kOptionalTensorList: return tensor_list(L, i, true);
    case ArgumentKind::kBoolList: {
      c10::List<bool> list;
      each(L, i, [&](int k) { list.push_back(lua_toboolean(L, k) != 0); });
      return list;
    }
    case ArgumentKind::kUnsupported: break;
  }
  throw Error("an argument of a type that Lua cannot make");
}

void push_result(lua_State* L, const c10::IValue& value, const c10::Type& type) {
  if (value.isTensor()) return push(L, value.toTensor());
  if (value.isNone()) return lua_pushnil(L);
  if (value.isBool()) return push(L, value.toBool());
  if (value.isInt()) {
    // An enum in the schema, an int in the IValue: Lua sees the name.
    if (type.kind() == c10::TypeKind::ScalarTypeType) {
      return push(L, short_dtype_name(static_cast<at::ScalarType>(value.toInt())));
    }
    return push(L, value.toInt());
  }
  if (value.isDouble()) return push(L, value.toDouble());
  if (value.isString()) return push(L, std::string_view(value.toStringRef()));
  if (value.isDevice()) return push(L, value.toDevice().str());
  // Lua has one kind of number.
  if (value.isScalar()) return push(L, value.toScalar().toDouble());
  if (value.isList()) {
    const auto& element = *type.expectRef<c10::ListType>().getElementType();
    const c10::List<c10::IValue> list = value.toList();
    lua_createtable(L, static_cast<int>(list.size()), 0);
    for (size_t k = 0; k < list.size(); ++k) {
      push_result(L, list.get(k), element);
      lua_rawseti(L, -2, static_cast<int>(k) + 1);
    }
    return;
  }
  throw Error(fmt::format("a result of type {} has no Lua form", type.str()));
}

}  // namespace xrun
