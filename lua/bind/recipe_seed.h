#pragma once
// The seeds of what a recipe draws itself.

#include <cstdint>

namespace xrun {

class LuaState;

// Seeds the generators that a recipe draws from itself, ATen's and math.random, from (seed,
// position, stream). Position 0 is the recipe's first line.
void seed_recipe(LuaState& state, uint64_t seed, int64_t position, int64_t stream);
// math.random alone.
void seed_lua_random(LuaState& state, uint64_t seed, int64_t position, int64_t stream);
// Seeds math.random from the seed that ATen's generator has, as in an objective.
void seed_lua_as_aten(LuaState& state);

}  // namespace xrun
