#pragma once
// Seeds the generators that a recipe draws from in its own code.

#include <cstdint>

namespace xrun {

class LuaState;

// Seeds ATen's generator and math.random from (seed, position, stream). Position 0 is the recipe's
// first line.
void seed_recipe(LuaState& state, uint64_t seed, int64_t position, int64_t stream);
// Seeds math.random alone.
void seed_lua_random(LuaState& state, uint64_t seed, int64_t position, int64_t stream);
// Seeds math.random from the current seed of ATen's generator, before an objective runs.
void seed_lua_as_aten(LuaState& state);

}  // namespace xrun
