// A call reads the kinds of the Lua values, chooses the overload of least cost (cached by the
// kinds), fills the schema's arguments, runs the operator and pushes its results.

#include <ATen/core/stack.h>

#include <algorithm>

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/tensor/op_match.h"
#include "lua/tensor/op_table.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

constexpr int kMaxNamed = 32;

// Returns FNV-1a over the kinds of the arguments and the names of keyword arguments, whose order
// does not count. Kinds and names alone decide the overload, never the values.
uint64_t key_of(const OpValues& values, bool as_method) {
  // x:f(y) and xrun.f(x, y) may match differently, so they have different keys.
  uint64_t hash = as_method ? 0xcbf29ce484222325ULL : 0x84222325cbf29ce4ULL;
  const auto mix = [](uint64_t at, uint64_t byte) { return (at ^ byte) * 0x100000001b3ULL; };
  for (const OpValue& value : values.positional)
    hash = mix(hash, static_cast<uint64_t>(value.kind));
  uint64_t named = 0;
  // Sums, because Lua gives the keys of a table in no fixed order.
  for (const OpValue& value : values.named) {
    uint64_t one = 0xcbf29ce484222325ULL;
    for (const char* c = value.name; *c != 0; ++c) one = mix(one, static_cast<uint8_t>(*c));
    named += mix(one, static_cast<uint64_t>(value.kind) + 1);
  }
  return mix(hash, 0xff) ^ named;
}

// Leaves the values of keyword arguments on the stack, so that each has an index.
OpValues read_values(lua_State* L) {
  OpValues values;
  int top = lua_gettop(L);
  // Only the last argument can be a table of keyword arguments, as in f(x, { dim = 0 }).
  if (top > 0 && lua_type(L, top) == LUA_TTABLE) {
    const ValueKind last = value_kind(L, top);
    if (last == ValueKind::kMixedTable) {
      throw Error(
          "the last table has both numbered and named elements"
          "\nhint: a list and keyword arguments are two tables: f({2, 3}, {dim = 0})");
    }
    if (last == ValueKind::kNamedTable) {
      // A slot for each value, and room for the walk and for reading the values later.
      luaL_checkstack(L, kMaxNamed + LUA_MINSTACK, "too many keyword arguments");
      lua_pushnil(L);
      while (lua_next(L, top) != 0) {
        XRUN_CHECK(values.named.size() < kMaxNamed,
                   "got more than {0} keyword arguments, wanted at most {0}", kMaxNamed);
        // Owned by the table, which stays on the stack.
        const char* name = lua_tostring(L, -2);
        values.named.push_back({lua_gettop(L) - 1, value_kind(L, lua_gettop(L)), name});
        // lua_next needs the key on top; the value stays below it.
        lua_insert(L, -2);
      }
      top -= 1;
    }
  }
  for (int i = 1; i <= top; ++i) values.positional.push_back({i, value_kind(L, i), nullptr});
  return values;
}

// No schema has requires_grad, but factories take it, as in PyTorch.
bool take_requires_grad(lua_State* L, const OpPacket& packet, OpValues& values) {
  const bool factory = std::any_of(packet.overloads.begin(), packet.overloads.end(),
                                   [](const OpOverload& overload) { return overload.factory; });
  if (!factory) return false;
  for (size_t i = 0; i < values.named.size(); ++i) {
    if (std::string_view(values.named[i].name) != "requires_grad") continue;
    const bool wanted = read_bool(L, values.named[i].index, "keyword argument `requires_grad`");
    values.named.erase(values.named.begin() + static_cast<ptrdiff_t>(i));
    return wanted;
  }
  return false;
}

// x:to("cpu") names a device alone, which only the keyword form of aten::to takes.
void rewrite_to(const OpPacket& packet, OpValues& values) {
  if (packet.name != "aten::to" || values.positional.size() != 2) return;
  if (values.positional[1].kind != ValueKind::kDeviceName) return;
  values.named.push_back({values.positional[1].index, ValueKind::kDeviceName, "device"});
  values.positional.pop_back();
}

const OpOverload& choose(lua_State* L, const OpPacket& packet, const OpValues& values,
                         bool as_method) {
  const uint64_t key = key_of(values, as_method);
  {
    // Held only for the look-up: matching may throw.
    const std::lock_guard lock(packet.cache->mutex);
    if (auto found = packet.cache->chosen.find(key); found != packet.cache->chosen.end()) {
      return *found->second;
    }
  }
  const OpOverload* best = nullptr;
  int best_cost = 0;
  for (const OpOverload& overload : packet.overloads) {
    const OpMatch match = match_overload(packet, overload, values, as_method);
    // The first of several equal costs stays, so the order of tried_before decides.
    if (match.cost < 0 || (best != nullptr && match.cost >= best_cost)) continue;
    best = &overload;
    best_cost = match.cost;
  }
  // Failures are not cached: they end the recipe or are rare.
  if (best == nullptr) throw_no_overload(L, packet, values, as_method);
  const std::lock_guard lock(packet.cache->mutex);
  packet.cache->chosen.emplace(key, best);
  return *best;
}

torch::jit::Stack make_stack(lua_State* L, const OpOverload& overload, const OpValues& values,
                             const OpMatch& match) {
  torch::jit::Stack stack;
  stack.reserve(overload.arguments.size());
  const auto& schema = overload.schema().arguments();
  for (size_t i = 0; i < overload.arguments.size(); ++i) {
    const OpArgument& argument = overload.arguments[i];
    if (match.ints_from >= 0 && static_cast<int>(i) == overload.ints_from) {
      // The trailing ints become the one list.
      c10::List<int64_t> list;
      for (size_t k = match.ints_from; k < values.positional.size(); ++k) {
        list.push_back(to_ivalue(L, values.positional[k].index, values.positional[k].kind,
                                 ArgumentKind::kInt, 0)
                           .toInt());
      }
      stack.emplace_back(std::move(list));
      continue;
    }
    const OpValue* value = match.value[i];
    // nil means the default.
    if (value == nullptr || value->kind == ValueKind::kNil) {
      const auto& otherwise = schema[i].default_value();
      stack.push_back(otherwise ? *otherwise : c10::IValue());
      continue;
    }
    stack.push_back(to_ivalue(L, value->index, value->kind, argument.kind, argument.count));
  }
  return stack;
}

int push_results(lua_State* L, const OpOverload& overload, const torch::jit::Stack& stack,
                 const OpMatch& match, bool requires_grad) {
  const auto& returns = overload.schema().returns();
  luaL_checkstack(L, static_cast<int>(stack.size()) + 4, "too many results");
  for (size_t r = 0; r < stack.size(); ++r) {
    if (stack[r].isTensor()) {
      const at::Tensor& tensor = stack[r].toTensor();
      int same = 0;  // an in-place operator returns the handle that it was given
      for (size_t i = 0; i < overload.arguments.size() && same == 0; ++i) {
        if (!overload.arguments[i].writes || match.value[i] == nullptr) continue;
        const at::Tensor* operand = tensor_if(L, match.value[i]->index);
        if (operand != nullptr && operand->is_same(tensor)) same = match.value[i]->index;
      }
      if (same != 0) {
        // The same handle, so that rawequal and the ledger see one tensor.
        lua_pushvalue(L, same);
        continue;
      }
      if (requires_grad) tensor.set_requires_grad(true);
    }
    push_result(L, stack[r], *returns[r].real_type());
  }
  return static_cast<int>(stack.size());
}

}  // namespace

int call_op(lua_State* L, const OpPacket& packet, bool as_method) {
  OpValues values = read_values(L);
  for (const OpValue& value : values.positional) {
    // Throws the error of a closed tensor; without this, no overload would seem to fit.
    if (value.kind == ValueKind::kClosedTensor) read_tensor(L, value.index, nullptr);
  }
  rewrite_to(packet, values);
  const bool requires_grad = take_requires_grad(L, packet, values);
  const OpOverload& overload = choose(L, packet, values, as_method);
  // Matched again: the cache holds the overload, not the assignment of values to arguments.
  const OpMatch match = match_overload(packet, overload, values, as_method);
  // The hashes of two different calls collided.
  if (match.cost < 0) throw_no_overload(L, packet, values, as_method);
  torch::jit::Stack stack = make_stack(L, overload, values, match);
  if (packet.check != nullptr) packet.check(overload, stack);
  // Through the dispatcher, so that autograd, devices and hooks apply.
  overload.handle.callBoxed(stack);
  return push_results(L, overload, stack, match, requires_grad);
}

int call_aten(lua_State* L, std::string_view name) {
  const OpPacket* packet = find_op("aten", name);
  XRUN_CHECK(packet != nullptr, "this LibTorch has no aten::{}", name);
  return call_op(L, *packet, false);
}

}  // namespace xrun
