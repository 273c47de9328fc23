#pragma once
// Rows of class Tensor's table of methods, properties and operators.

#include <span>

#include "lua/state/class.h"

namespace xrun {

struct TensorEntry {
  DocKind kind;
  const char* name;
  const char* signature;
  const char* doc;
  int (*invoke)(lua_State*, void*);
};

// A plain function as what a binding invokes.
template <lua_CFunction F>
int plain(lua_State* L, void*) {
  return F(L);
}

void add_tensor_entries(ClassTable& table, std::span<const TensorEntry> entries);

// + - * / % ^ unary - # .. < <= ==
void add_tensor_operators(ClassTable& table);

}  // namespace xrun
