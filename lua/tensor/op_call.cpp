// Calls an operator: read the kinds of the Lua values, choose the overload of least cost (cached by
// the kinds), fill the schema's arguments, run it, push the results.
//
// Matching: positional values fill arguments in order (a method's object goes where the schema says
// `self`), named ones by name; every argument left over needs a default. The cost of a match is the
// sum of its conversions' costs.

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "lua/state/args.h"
#include "lua/tensor/op_table.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

// ---- matching

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

constexpr int kIntsCost = 3;  // x:view(2, 3): after every form that takes the ints one by one

struct Matcher {
  const OpPacket& packet;
  const OpOverload& overload;
  const OpValues& values;
  lua_State* explain;
  OpMatch match;

  bool fail(auto&& text) {
    match.cost = -1;
    if (explain != nullptr) match.failure = text();
    return false;
  }

  bool take(int at, const OpValue& value) {
    const OpArgument& argument = overload.arguments[at];
    int cost = 0;
    if (value.kind == ValueKind::kNil) {
      cost = argument.optional || argument.has_default ? 0 : -1;
    } else {
      // The sum of costs ranks the overloads that fit.
      cost = conversion_cost(argument.kind, value.kind, argument.optional, argument.count > 0,
                             packet.number_as_tensor);
    }
    if (cost < 0) {
      return fail([&] {
        return fmt::format("argument `{}` got {}, wanted {}", argument.name,
                           describe_value(explain, value.index),
                           overload.schema().arguments()[at].real_type()->str());
      });
    }
    match.cost += cost;
    match.fitted += 1;
    match.value[at] = &value;
    return true;
  }

  // The argument that positional value k goes to.
  int target(size_t k, bool as_method) const {
    const int at = static_cast<int>(k);
    // self is almost always first; otherwise the object is taken out of the order.
    if (!as_method || overload.self <= 0) return at;
    if (at == 0) return overload.self;
    return at <= overload.self ? at - 1 : at;
  }

  bool all_ints(size_t from) const {
    if (overload.ints_from < 0 || from >= values.positional.size()) return false;
    return std::all_of(values.positional.begin() + static_cast<ptrdiff_t>(from),
                       values.positional.end(), [](const OpValue& value) {
                         return value.kind == ValueKind::kInt || value.kind == ValueKind::kInt64;
                       });
  }

  bool positional(bool as_method) {
    const size_t ints = static_cast<size_t>(std::max(overload.ints_from, 0));
    // Several ints are a list. A single one is a list only for int[] without a size, since int[N]
    // takes one int by itself.
    // x:view(6) has one int, and the list of view has no fixed size.
    const bool list = all_ints(ints) &&
                      (values.positional.size() > ints + 1 || overload.arguments[ints].count == 0);
    for (size_t k = 0; k < values.positional.size(); ++k) {
      if (list && k == ints) {
        match.ints_from = static_cast<int>(ints);
        match.cost += kIntsCost;
        return true;
      }
      if (static_cast<int>(k) >= overload.positional) {
        return fail([&] {
          return fmt::format("takes at most {} arguments in order, got {}", overload.positional,
                             values.positional.size());
        });
      }
      if (!take(target(k, as_method), values.positional[k])) return false;
    }
    return true;
  }

  bool named() {
    for (const OpValue& value : values.named) {
      const auto found =
          std::find_if(overload.arguments.begin(), overload.arguments.end(),
                       [&](const OpArgument& argument) { return argument.name == value.name; });
      const int at = static_cast<int>(found - overload.arguments.begin());
      // A list of ints has taken the argument already.
      const bool list = match.ints_from >= 0 && at == overload.ints_from;
      if (found == overload.arguments.end()) {
        return fail([&] { return fmt::format("has no argument `{}`", value.name); });
      }
      if (match.value[at] != nullptr || list) {
        return fail([&] { return fmt::format("argument `{}` is given twice", value.name); });
      }
      if (!take(at, value)) return false;
    }
    return true;
  }

  bool defaults() {
    for (size_t i = 0; i < overload.arguments.size(); ++i) {
      const OpArgument& argument = overload.arguments[i];
      const bool list = match.ints_from >= 0 && static_cast<int>(i) == overload.ints_from;
      // An optional argument without a default must be given, as in PyTorch.
      if (match.value[i] != nullptr || list || argument.has_default) continue;
      return fail([&] { return fmt::format("argument `{}` is missing", argument.name); });
    }
    return true;
  }
};

// With `explain`, L says in `failure` why the overload does not fit.
OpMatch match_overload(const OpPacket& packet, const OpOverload& overload, const OpValues& values,
                       bool as_method, lua_State* explain = nullptr) {
  Matcher matcher{packet, overload, values, explain, {}};
  matcher.match.cost = 0;
  matcher.match.value.resize(overload.arguments.size(), nullptr);
  const bool callable = !as_method || overload.self >= 0 ||
                        matcher.fail([] { return std::string("is not a method"); });
  if (callable && matcher.positional(as_method) && matcher.named()) matcher.defaults();
  return std::move(matcher.match);
}

// Throws Error with the three best candidates and the argument that each failed on.
[[noreturn]] void throw_no_overload(lua_State* L, const OpPacket& packet, const OpValues& values,
                                    bool as_method) {
  std::vector<std::string> keywords;
  for (const OpOverload& overload : packet.overloads) {
    for (const OpArgument& argument : overload.arguments) keywords.push_back(argument.name);
  }
  for (const OpValue& value : values.named) {
    if (std::find(keywords.begin(), keywords.end(), value.name) != keywords.end()) continue;
    const std::string near = nearest_name(value.name, keywords);
    throw Error(fmt::format(
        "there is no keyword argument `{}`; the overloads are\n{}{}", value.name,
        [&] {
          std::string forms;
          for (size_t i = 0; i < packet.overloads.size() && i < 3; ++i) {
            forms += (i > 0 ? "\n  " : "  ") + overload_text(packet.overloads[i]);
          }
          return forms;
        }(),
        near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
  }
  std::vector<std::pair<OpMatch, const OpOverload*>> tried;
  for (const OpOverload& overload : packet.overloads) {
    // Matched again, with explanations: the usual call does not pay for them.
    tried.emplace_back(match_overload(packet, overload, values, as_method, L), &overload);
  }
  // The overload that took most values is most likely the one that was meant.
  std::stable_sort(tried.begin(), tried.end(),
                   [](const auto& a, const auto& b) { return a.first.fitted > b.first.fitted; });
  std::string got;
  for (const OpValue& value : values.positional) {
    add_item(got, describe_value(L, value.index));
  }
  for (const OpValue& value : values.named) {
    add_item(got, fmt::format("{} = {}", value.name, describe_value(L, value.index)));
  }
  std::string text = fmt::format("no form of it takes ({})", got);
  for (size_t i = 0; i < tried.size() && i < 3; ++i) {
    text += fmt::format("\n  {}: {}", overload_text(*tried[i].second), tried[i].first.failure);
  }
  throw Error(text);
}

// ---- calling

// FNV-1a over the kinds and the names of keyword arguments; the latter in any order. The kinds
// alone decide the overload, never the values.
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
      // Each takes two slots while the table is walked.
      luaL_checkstack(L, 64, "too many keyword arguments");
      lua_pushnil(L);
      while (lua_next(L, top) != 0) {
        // lua_next needs the key on top; the value stays below it
        XRUN_CHECK(lua_gettop(L) - top < 32, "more than 32 keyword arguments");
        // Owned by the table, which stays on the stack.
        const char* name = lua_tostring(L, -2);
        values.named.push_back({lua_gettop(L) - 1, value_kind(L, lua_gettop(L)), name});
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
    // nil stands for the default.
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
    // For its message: a closed tensor is not a missing overload.
    if (value.kind == ValueKind::kClosedTensor) read_tensor(L, value.index, nullptr);
  }
  rewrite_to(packet, values);
  const bool requires_grad = take_requires_grad(L, packet, values);
  const OpOverload& overload = choose(L, packet, values, as_method);
  // Matched again: the cache holds the overload, not the assignment of values to arguments.
  const OpMatch match = match_overload(packet, overload, values, as_method);
  if (match.cost < 0)
    throw_no_overload(L, packet, values, as_method);  // the hashes of two different calls collided
  torch::jit::Stack stack = make_stack(L, overload, values, match);
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
