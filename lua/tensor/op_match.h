#pragma once
// Overload resolution: the form of an operator that takes the values of a call. Positional values
// fill arguments in order (a method's object goes where the schema says `self`), named ones by
// name; every argument left over needs a default.

#include <c10/util/SmallVector.h>

#include <string>

#include "lua/tensor/op_table.h"

namespace xrun {

// An argument of the call.
struct OpValue {
  int index;  // on the Lua stack
  ValueKind kind;
  const char* name;  // of a keyword argument, else nullptr
};

struct OpValues {
  c10::SmallVector<OpValue, 8> positional;
  c10::SmallVector<OpValue, 8> named;
};

struct OpMatch {
  int cost = -1;                               // -1: it does not fit
  c10::SmallVector<const OpValue*, 12> value;  // by argument; nullptr: its default
  int ints_from = -1;                          // first of the ints that form one list
  int fitted = 0;                              // arguments that fitted, to rank failures
  std::string failure;                         // filled by explain only
};

// Matches the values of a call. The cost is the sum of the conversions' costs; the overload of
// least cost is called. With `explain`, `failure` says why the overload does not fit.
OpMatch match_overload(const OpPacket& packet, const OpOverload& overload, const OpValues& values,
                       bool as_method, lua_State* explain = nullptr);

// Throws Error with the three best candidates and the argument that each failed on.
[[noreturn]] void throw_no_overload(lua_State* L, const OpPacket& packet, const OpValues& values,
                                    bool as_method);

}  // namespace xrun
