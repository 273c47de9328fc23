// Kinds of Lua values and the cost of converting them. Lua has only doubles (2 is 2.0), so a whole
// double is an int that may serve as a float. A dtype is a name ("bf16"), never a number.

#include "lua/tensor/op_value.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "lua/state/args.h"
#include "lua/tensor/dtype_names.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

struct None {};
struct ForcedFloat {
  double value;
};

constexpr double kLargestWhole = 9007199254740992.0;  // 2^53

ValueKind number_kind(double value) {
  // Beyond 2^53 a double no longer says which integer was meant.
  const bool whole = std::floor(value) == value && std::fabs(value) <= kLargestWhole;
  // -0 is a float: as an int it would become +0.
  return whole && !(value == 0 && std::signbit(value)) ? ValueKind::kInt : ValueKind::kFloat;
}

ValueKind string_kind(std::string_view text) {
  // The names are disjoint, so the order decides nothing.
  if (dtype_of(text)) return ValueKind::kDTypeName;
  if (device_of(text)) return ValueKind::kDeviceName;
  if (memory_format_of(text)) return ValueKind::kMemoryFormatName;
  if (layout_of(text)) return ValueKind::kLayoutName;
  return ValueKind::kString;
}

// The kind of a list of kind `list` once an element of kind `next` is appended.
// kOther absorbs: a list that fits no kind stays so.
ValueKind join(ValueKind list, ValueKind next, bool first) {
  using K = ValueKind;
  const bool whole = next == K::kInt || next == K::kInt64;
  const bool number = whole || next == K::kFloat || next == K::kForcedFloat;
  if (number) {
    if (first) return whole ? K::kIntList : K::kFloatList;
    if (list == K::kIntList) return whole ? K::kIntList : K::kFloatList;
    return list == K::kFloatList ? list : K::kOther;
  }
  // Tensors and xrun.none may come in any order; xrun.none makes them a list of optional tensors.
  if (next == K::kTensor) {
    const bool fits = first || list == K::kTensorList || list == K::kOptionalTensorList;
    return !fits ? K::kOther : first ? K::kTensorList : list;
  }
  if (next == K::kNone) {
    const bool fits = first || list == K::kTensorList || list == K::kOptionalTensorList;
    return fits ? K::kOptionalTensorList : K::kOther;
  }
  if (next == K::kClosedTensor) return K::kClosedTensor;
  if (next == K::kBool) return first || list == K::kBoolList ? K::kBoolList : K::kOther;
  const bool text = next >= K::kString && next <= K::kDeviceName;
  return text && (first || list == K::kStringList) ? K::kStringList : K::kOther;
}

ValueKind table_kind(lua_State* L, int i) {
  const size_t length = lua_objlen(L, i);
  size_t counted = 0, named = 0, others = 0;
  lua_pushnil(L);
  while (lua_next(L, i) != 0) {
    lua_pop(L, 1);
    // Counted before elements are read: a mixed table must fail as such, not by its first element.
    const int key = lua_type(L, -1);
    ++(key == LUA_TNUMBER ? counted : key == LUA_TSTRING ? named : others);
  }
  if (others > 0) return ValueKind::kOther;  // a boolean or a table is neither position nor name
  if (named > 0) return counted > 0 ? ValueKind::kMixedTable : ValueKind::kNamedTable;
  if (counted != length) return ValueKind::kOther;  // a list with gaps
  ValueKind kind = ValueKind::kEmptyList;
  for (size_t k = 1; k <= length && kind != ValueKind::kOther; ++k) {
    lua_rawgeti(L, i, static_cast<int>(k));
    kind = join(kind, value_kind(L, lua_gettop(L)), k == 1);
    lua_pop(L, 1);
  }
  return kind;
}

}  // namespace

// LuaJIT prints an int64 as "123LL" and a uint64 as "123ULL".
bool read_cdata(lua_State* L, int i, int64_t* value) {
  // LuaJIT's C API cannot read cdata, so its text is parsed.
  if (luaL_callmeta(L, i, "__tostring") == 0) return false;
  const std::string text(string_at(L, -1));
  lua_pop(L, 1);
  if (!text.ends_with("LL")) return false;
  errno = 0;
  *value = std::strtoll(text.c_str(), nullptr, 10);
  return errno == 0;
}

ValueKind value_kind(lua_State* L, int i) {
  switch (lua_type(L, i)) {
    case LUA_TNONE:
    case LUA_TNIL: return ValueKind::kNil;
    case LUA_TBOOLEAN: return ValueKind::kBool;
    case LUA_TNUMBER: return number_kind(lua_tonumber(L, i));
    case LUA_TSTRING: return string_kind(string_at(L, i));
    case LUA_TTABLE: return table_kind(L, i);
    case LUA_TUSERDATA: {
      if (tensor_if(L, i) != nullptr) return ValueKind::kTensor;
      const ClassInfo* info = class_of(L, i);
      if (info == &class_info<None>) return ValueKind::kNone;
      if (info == &class_info<ForcedFloat>) return ValueKind::kForcedFloat;
      if (info == &class_info<at::Tensor>) return ValueKind::kClosedTensor;
      return ValueKind::kOther;
    }
    case kLuaCData: {
      int64_t value = 0;
      return read_cdata(L, i, &value) ? ValueKind::kInt64 : ValueKind::kOther;
    }
    default: return ValueKind::kOther;
  }
}

ArgumentKind argument_kind(const c10::Argument& argument, bool& optional) {
  c10::TypePtr type = argument.real_type();
  optional = type->kind() == c10::TypeKind::OptionalType;
  if (optional) type = type->expectRef<c10::OptionalType>().getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType: return ArgumentKind::kTensor;
    case c10::TypeKind::NumberType: return ArgumentKind::kScalar;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return ArgumentKind::kInt;
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType: return ArgumentKind::kFloat;
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType: return ArgumentKind::kBool;
    case c10::TypeKind::StringType: return ArgumentKind::kString;
    case c10::TypeKind::ScalarTypeType: return ArgumentKind::kScalarType;
    case c10::TypeKind::LayoutType: return ArgumentKind::kLayout;
    case c10::TypeKind::MemoryFormatType: return ArgumentKind::kMemoryFormat;
    case c10::TypeKind::DeviceObjType: return ArgumentKind::kDevice;
    case c10::TypeKind::ListType: break;
    default: return ArgumentKind::kUnsupported;
  }
  switch (const c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
          element->kind()) {
    case c10::TypeKind::TensorType: return ArgumentKind::kTensorList;
    case c10::TypeKind::OptionalType: return ArgumentKind::kOptionalTensorList;
    case c10::TypeKind::NumberType: return ArgumentKind::kScalarList;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return ArgumentKind::kIntList;
    case c10::TypeKind::FloatType: return ArgumentKind::kFloatList;
    case c10::TypeKind::BoolType: return ArgumentKind::kBoolList;
    default: return ArgumentKind::kUnsupported;
  }
}

int conversion_cost(ArgumentKind wanted, ValueKind got, bool optional, bool broadcast,
                    bool number_as_tensor) {
  using K = ValueKind;
  // xrun.none is an absent value, so only an optional argument takes it.
  if (got == K::kNone) return optional ? 0 : -1;
  const bool whole = got == K::kInt || got == K::kInt64;
  const bool number = whole || got == K::kFloat || got == K::kForcedFloat;
  const auto exactly = [&](K kind) { return got == kind ? 0 : -1; };
  const auto list = [&](K kind, int other) {
    return got == kind || got == K::kEmptyList ? 0 : other;
  };
  switch (wanted) {
    case ArgumentKind::kTensor:
      if (got == K::kTensor) return 0;
      // 8: after the overloads that take a Scalar.
      return number_as_tensor && (number || got == K::kBool) ? 8 : -1;
    case ArgumentKind::kScalar:
      // A 0-dim tensor becomes a number, as in PyTorch, if nothing fits better.
      return number ? 0 : got == K::kBool ? 1 : got == K::kTensor ? 9 : -1;
    case ArgumentKind::kInt: return whole ? 0 : -1;
    // An int overload comes first: 2 is 2.0 in Lua, and PyTorch would see the int.
    case ArgumentKind::kFloat: return whole ? 1 : number ? 0 : -1;
    case ArgumentKind::kBool: return exactly(K::kBool);
    case ArgumentKind::kString:
      return got == K::kString ? 0 : got > K::kString && got <= K::kDeviceName ? 1 : -1;
    case ArgumentKind::kScalarType: return exactly(K::kDTypeName);
    case ArgumentKind::kLayout: return exactly(K::kLayoutName);
    case ArgumentKind::kMemoryFormat: return exactly(K::kMemoryFormatName);
    case ArgumentKind::kDevice: return exactly(K::kDeviceName);
    // int[2] takes a single int for both.
    case ArgumentKind::kIntList: return list(K::kIntList, whole && broadcast ? 2 : -1);
    case ArgumentKind::kFloatList: return list(K::kFloatList, got == K::kIntList ? 1 : -1);
    case ArgumentKind::kScalarList:
      return list(K::kFloatList, got == K::kIntList ? 0 : got == K::kBoolList ? 1 : -1);
    case ArgumentKind::kBoolList: return list(K::kBoolList, -1);
    case ArgumentKind::kTensorList: return list(K::kTensorList, -1);
    case ArgumentKind::kOptionalTensorList:
      return list(K::kTensorList, got == K::kOptionalTensorList ? 0 : -1);
    case ArgumentKind::kUnsupported: return -1;
  }
  return -1;
}

double read_forced_float(lua_State* L, int i) { return object_at<ForcedFloat>(L, i)->value; }

bool is_none(lua_State* L, int i) { return class_of(L, i) == &class_info<None>; }

void open_values(LuaState& state) {
  lua_State* L = state;
  Class<None>(L, "None", "The type of xrun.none.").tostring([](const None&) {
    return std::string("xrun.none");
  });
  push(L, std::make_shared<None>());
  state.value(
      "none", "None",
      "An absent value where nil cannot stand: in a list of tensors, as a slice's open end, "
      "for a keyword argument whose value is None.");
  Class<ForcedFloat>(L, "Float", "A number that stays a float: see xrun.f.")
      .tostring([](const ForcedFloat& self) { return fmt::format("xrun.f({})", self.value); });
  state.function("f", {{"number", "number"}}, {"Float"},
                 "Forces a number to be a float where a whole one would count as an integer: "
                 "xrun.full({2}, xrun.f(1)) is f32, xrun.full({2}, 1) is i64, as in PyTorch.",
                 [](lua_State* L) {
                   push(L, std::make_shared<ForcedFloat>(ForcedFloat{arg<double>(L, 1, "number")}));
                   return 1;
                 });
}

}  // namespace xrun
