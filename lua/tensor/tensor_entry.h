#pragma once
// Members of class Tensor, which is no C++ class of ours: its functions take the Lua stack alone.

#include "lua/state/class.h"

namespace xrun {

// A plain function as what a binding invokes.
template <lua_CFunction F>
int plain(lua_State* L, void*) {
  return F(L);
}

// Adds members to the class table: members.method<size>("size", {}, {"integer"}, "One size.").
struct TensorMembers {
  ClassTable& table;

  template <lua_CFunction F>
  void property(const char* name, const char* type, const char* doc) {
    table.add(DocKind::kProperty, name, {}, {type}, doc, nullptr, plain<F>);
  }
  template <lua_CFunction F>
  void method(const char* name, std::vector<LuaParameter> parameters,
              std::vector<LuaResult> results, const char* doc) {
    table.add(DocKind::kMethod, name, std::move(parameters), std::move(results), doc, nullptr,
              plain<F>);
  }
  template <lua_CFunction F>
  void metamethod(const char* name, std::vector<LuaParameter> parameters,
                  std::vector<LuaResult> results, const char* doc) {
    table.add_metamethod(name, std::move(parameters), std::move(results), doc, nullptr, plain<F>);
  }
};

// + - * / % ^ unary - # .. < <= ==
void add_tensor_operators(TensorMembers tensor);

}  // namespace xrun
