#pragma once
// Matches Lua's values to the arguments of one overload.

#include <c10/util/SmallVector.h>

#include "lua/tensor/op_table.h"

namespace xrun {

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

// Matches; with `explain`, L is used to say what did not fit.
OpMatch match_overload(const OpPacket& packet, const OpOverload& overload, const OpValues& values,
                       bool as_method, lua_State* explain = nullptr);

// Throws Error with the three best candidates and the argument each failed on.
[[noreturn]] void throw_no_overload(lua_State* L, const OpPacket& packet, const OpValues& values,
                                    bool as_method);

}  // namespace xrun
