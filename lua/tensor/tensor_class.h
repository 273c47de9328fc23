#pragma once
// Declares the parts of class Tensor and of the module's tensor functions, one source file each.
// at::Tensor is not bound as a Class, so its members are plain Lua functions.

#include "lua/state/class.h"

namespace xrun {

// Adapts a plain function to the signature that a binding invokes.
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

// xrun.tensor, no_grad, scope, keep, manual_seed, and the names of dtypes, memory formats and
// layouts.
void open_tensor_functions(LuaState& state);

// xrun.ops.<namespace>.<operator>, and xrun.<operator> for every public operator of ATen; an
// unknown name of the module is an error with did-you-mean.
void open_ops(LuaState& state);

}  // namespace xrun
