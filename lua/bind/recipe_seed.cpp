// Each draw has its own Philox stream, so that a resumed run draws the same numbers.

#include "lua/bind/recipe_seed.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <mutex>

#include "core/base/philox.h"
#include "lua/state/args.h"
#include "lua/state/lua_state.h"

namespace xrun {

namespace {

void seed_math_random(LuaState& state, uint64_t bits) {
  lua_State* L = state;
  const StackGuard guard(L);
  lua_getglobal(L, "math");
  lua_getfield(L, -1, "randomseed");
  // 53 bits: the precision of a Lua number.
  push(L, static_cast<double>(bits >> 11));
  protected_call(L, 1, 0);
}

}  // namespace

void seed_recipe(LuaState& state, uint64_t seed, int64_t position, int64_t stream) {
  at::manual_seed(philox_u64(seed, kStreamBody, static_cast<uint64_t>(position),
                             static_cast<uint64_t>(stream)));
  seed_lua_random(state, seed, position, stream);
}

void seed_lua_random(LuaState& state, uint64_t seed, int64_t position, int64_t stream) {
  seed_math_random(state, philox_u64(seed, kStreamLua, static_cast<uint64_t>(position),
                                     static_cast<uint64_t>(stream)));
}

void seed_lua_as_aten(LuaState& state) {
  at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
  const std::lock_guard lock(generator.mutex());
  seed_math_random(state, philox_u64(generator.current_seed(), kStreamLua, 0, 0));
}

}  // namespace xrun
