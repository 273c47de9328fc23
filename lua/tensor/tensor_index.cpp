// t[i] selects; t[{ a, b, ... }] takes one entry per dimension:
//   number        that index; counts from 0, negative from the end
//   { a, b, c }   elements a to b, b excluded, step c; xrun.none leaves an end open
//   {} or ":"     the whole dimension
//   Tensor        advanced indexing, as PyTorch's (i64 indices or a bool mask)
// t[tensor] is t[{ tensor }].

#include <ATen/core/List.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/select.h>
#include <ATen/ops/slice.h>

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/tensor/op_value.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

struct Selection {
  at::Tensor view;                                  // after numbers and slices
  c10::List<std::optional<at::Tensor>> advanced{};  // empty if there are no tensors
};

// Throws Error for a name in an index: { stop = 3 } would otherwise be the whole dimension.
void check_unnamed(lua_State* L, int table) {
  const StackGuard guard(L);
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    XRUN_CHECK(lua_type(L, -1) == LUA_TNUMBER,
               "an index has no names such as {}; a slice is {{ start, stop, step }} in this order",
               describe_value(L, -1));
  }
}

std::optional<int64_t> slice_end(lua_State* L, int table, int k) {
  const StackGuard guard(L);
  lua_rawgeti(L, table, k);
  // nil cannot be inside a list, so none marks an open end.
  if (lua_isnil(L, -1) || is_none(L, -1)) return std::nullopt;
  return read_int(L, lua_gettop(L), "an end of a slice");
}

at::Tensor slice(lua_State* L, const at::Tensor& tensor, int64_t dim, int table) {
  check_unnamed(L, table);
  XRUN_CHECK(lua_objlen(L, table) <= 3, "a slice is {{ start, stop, step }}, got {} numbers",
             lua_objlen(L, table));
  const auto start = slice_end(L, table, 1), stop = slice_end(L, table, 2);
  return at::slice(tensor, dim, start, stop, slice_end(L, table, 3).value_or(1));
}

// Applies the entry at stack index i to dimension `dim`; returns how many dimensions it consumed.
int64_t apply(lua_State* L, Selection& selection, int64_t dim, int i) {
  if (lua_type(L, i) == LUA_TNUMBER) {
    selection.view = at::select(selection.view, dim, read_int(L, i, "an index"));
    return 0;  // the dimension is gone
  }
  if (const at::Tensor* index = tensor_if(L, i)) {
    // at::index needs an entry for each dimension up to the last tensor.
    while (static_cast<int64_t>(selection.advanced.size()) < dim) {
      selection.advanced.push_back(std::nullopt);
    }
    selection.advanced.push_back(*index);
    // A mask indexes as many dimensions as it has.
    return index->scalar_type() == at::kBool ? std::max<int64_t>(index->dim(), 1) : 1;
  }
  const bool whole = is_none(L, i) || (lua_type(L, i) == LUA_TSTRING && string_at(L, i) == ":");
  if (!whole) {
    if (lua_type(L, i) != LUA_TTABLE) {
      throw Error(
          fmt::format("an index is a number, {{ start, stop, step }}, \":\" or a Tensor, "
                      "got {}",
                      describe_value(L, i)));
    }
    selection.view = slice(L, selection.view, dim, i);
  }
  return 1;
}

Selection select(lua_State* L, const at::Tensor& tensor, int key) {
  Selection selection{.view = tensor};
  if (lua_type(L, key) != LUA_TTABLE) {
    XRUN_CHECK(tensor.dim() > 0, "{} has no dimension to index; :item() reads it",
               describe_tensor(tensor));
    apply(L, selection, 0, key);
    return selection;
  }
  const StackGuard guard(L);
  check_unnamed(L, key);
  const int entries = static_cast<int>(lua_objlen(L, key));
  XRUN_CHECK(entries <= tensor.dim(), "{} indices for {}", entries, describe_tensor(tensor));
  int64_t dim = 0;
  for (int k = 1; k <= entries; ++k) {
    lua_rawgeti(L, key, k);
    // A number removes its dimension, so the next entry applies to the same `dim`.
    dim += apply(L, selection, dim, lua_gettop(L));
    lua_pop(L, 1);
  }
  return selection;
}

}  // namespace

void index_tensor(lua_State* L, const at::Tensor& tensor, int key) {
  const Selection selection = select(L, tensor, key);
  push(L,
       selection.advanced.empty() ? selection.view : at::index(selection.view, selection.advanced));
}

void assign_index(lua_State* L, const at::Tensor& tensor, int key, int value) {
  Selection selection = select(L, tensor, key);
  const at::Tensor* source = tensor_if(L, value);
  if (source == nullptr && lua_type(L, value) != LUA_TNUMBER &&
      lua_type(L, value) != LUA_TBOOLEAN) {
    throw Error(fmt::format("a tensor's elements can be set to a number or a Tensor, got {}",
                            describe_value(L, value)));
  }
  at::Tensor number;
  if (source == nullptr) {
    const double scalar =
        lua_type(L, value) == LUA_TNUMBER ? lua_tonumber(L, value) : lua_toboolean(L, value);
    // On the tensor's device and in its type, so that copy_ does not convert.
    number = at::scalar_tensor(scalar, tensor.options().requires_grad(false));
    source = &number;
  }
  if (selection.advanced.empty()) {
    selection.view.copy_(*source);
  } else {
    // index_put_ does not convert the type of its source.
    at::index_put_(selection.view, selection.advanced, source->to(tensor.scalar_type()));
  }
}

}  // namespace xrun
