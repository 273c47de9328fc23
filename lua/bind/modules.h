#pragma once
// The functions that fill the module of `require "xrun"`, with the files that define them.

#include <string>
#include <vector>

#include "lua/bind/recipe.h"

namespace xrun {

void open_tensor(LuaState& state);          // tensor.cpp
void open_config(LuaState& state);          // config_binding.cpp
void open_metrics(LuaState& state);         // metrics.cpp
void open_view(LuaState& state);            // view.cpp
void open_policy(LuaState& state);          // policy.cpp
void open_scorer(LuaState& state);          // scorer.cpp
void open_frozen(LuaState& state);          // frozen.cpp; after policy and view
void open_kd(LuaState& state);              // kd.cpp; after frozen
void open_data_sets(LuaState& state);       // data_sets.cpp
void open_tokenizer(LuaState& state);       // tokenizer.cpp
void open_align(LuaState& state);           // align.cpp; after tokenizer and policy
void open_template(LuaState& state);        // template.cpp
void open_shuffle(LuaState& state);         // stream_functions.cpp
void open_mixture(LuaState& state);         // stream_functions.cpp
void open_pack(LuaState& state);            // stream_functions.cpp
void open_fold(LuaState& state);            // fold_functions.cpp
void open_advantage(LuaState& state);       // advantage.cpp
void open_rollouts(LuaState& state);        // rollouts.cpp; after policy and view
void open_rollout_source(LuaState& state);  // rollout_source.cpp
void open_adamw(LuaState& state);           // adamw.cpp
void open_ema(LuaState& state);             // adamw.cpp; after adamw
void open_run(LuaState& state);             // run.cpp
void open_require(LuaState& state);         // require.cpp
void open_strict_globals(LuaState& state);  // modules.cpp; last

// Makes require read the files of the recipe's modules again (require.cpp).
void forget_modules(lua_State* L);

// Returns a hint for the undefined name of a Python module (`torch`, `F`): what the call on the
// running line (torch.sign, F.logsigmoid) is here. "" for another name.
std::string python_module_hint(lua_State* L, const std::string& name);

// Those from open_tensor to open_run, in order of registration. Recipe calls the other two itself.
const std::vector<OpenModule>& engine_modules();

}  // namespace xrun
