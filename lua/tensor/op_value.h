#pragma once
// Lua values as arguments of operators. The kind of a value is enough to choose an overload; it is
// converted once, after the choice.

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <lua.hpp>
#include <string>
#include <string_view>

namespace c10 {
struct Argument;
}

namespace xrun {

// The kind of a Lua value.
enum class ValueKind : uint8_t {
  kNil,
  kNone,  // xrun.none: an explicit None
  kBool,
  kInt,  // a whole double within 2^53: 2 is 2.0
  kFloat,
  kForcedFloat,  // xrun.f(1)
  kInt64,        // 1LL
  kTensor,
  kClosedTensor,
  kString,  // any but the four below
  kDTypeName,
  kLayoutName,
  kMemoryFormatName,
  kDeviceName,
  kEmptyList,
  kIntList,
  kFloatList,
  kBoolList,
  kTensorList,
  kOptionalTensorList,  // tensors and xrun.none
  kStringList,
  kNamedTable,  // string keys: keyword arguments when it comes last
  kMixedTable,
  kOther,
};

// The kind of an argument of a schema, from real_type(): type() shows int for half of them.
enum class ArgumentKind : uint8_t {
  kTensor,
  kTensorList,
  kOptionalTensorList,
  kScalar,
  kScalarList,
  kInt,
  kIntList,
  kFloat,
  kFloatList,
  kBool,
  kBoolList,
  kString,
  kScalarType,
  kLayout,
  kMemoryFormat,
  kDevice,
  kUnsupported,  // Generator, Storage, Stream, ...: only their default
};

ValueKind value_kind(lua_State* L, int i);

constexpr int kLuaCData = 10;  // LuaJIT's type tag of FFI values
// Reads an int64 or uint64 cdata (1LL); false for any other cdata and for values beyond int64.
bool read_cdata(lua_State* L, int i, int64_t* value);
// Returns the number of an xrun.f(1).
double read_forced_float(lua_State* L, int i);

// The kind of a schema argument; sets `optional` if it may be None.
ArgumentKind argument_kind(const c10::Argument& argument, bool& optional);

// The distance of a value from an argument: 0 exact, larger worse, -1 impossible. broadcast: int[N]
// takes one int. number_as_tensor: the operator is on PyTorch's list of those that wrap numbers.
int conversion_cost(ArgumentKind wanted, ValueKind got, bool optional, bool broadcast,
                    bool number_as_tensor);

// Converts a value for which conversion_cost was not negative. count: N of int[N], else 0.
c10::IValue to_ivalue(lua_State* L, int i, ValueKind got, ArgumentKind wanted, int count);

// Pushes one result; `type` is the schema's real type of it. Undefined tensors and None are nil.
void push_result(lua_State* L, const c10::IValue& value, const c10::Type& type);

// Returns true if the value at index i is xrun.none. Registered by open_values with xrun.f.
bool is_none(lua_State* L, int i);
class LuaState;
void open_values(LuaState& state);

}  // namespace xrun
