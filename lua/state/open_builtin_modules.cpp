// Each module of lua/xrun runs once per state. Its documentation is here and not beside its Lua
// text, since doc strings are C++ declarations (doc.h).

#include "lua/state/args.h"
#include "lua/state/builtin_modules.h"
#include "lua/state/doc.h"
#include "lua/state/lua_state.h"

namespace xrun {

namespace {

void register_module_docs() {
  const auto add = [](const char* name, std::vector<LuaParameter> parameters,
                      std::vector<LuaResult> results, const char* doc) {
    register_doc({.name = name,
                  .kind = DocKind::kFunction,
                  .parameters = std::move(parameters),
                  .results = std::move(results),
                  .doc = doc});
  };
  add("xrun.sorted_pairs", {{"table", "table"}}, {"fun(): any, any"},
      "Iterates over a table in the order of its keys, numbers before text. The order of pairs "
      "differs from run to run, so no result may depend on it.");
  add("xrun.calculate", {{"expression", "string"}}, {"number?", "string?"},
      "The value of an arithmetic expression (+ - * / % ^, parentheses, decimal numbers), or nil "
      "and what is wrong with it. Runs nothing as code, so that a model may write the expression.");
  register_doc(
      {.name = "xrun.kl",
       .kind = DocKind::kValue,
       .results = {"table"},
       .doc =
           "Estimators of the KL divergence of the policy from the reference, per sampled token: "
           "k1, k2, k3, functions of two tensors of log-probs; loss. Also by require "
           "\"xrun.kl\"."});
  const std::vector<LuaParameter> logprobs = {{"logprob", "Tensor"}, {"reference", "Tensor"}};
  add("xrun.kl.k1", logprobs, {"Tensor"},
      "x = logprob - reference: unbiased, for rewards and metrics. Its mean gradient is 0, so it "
      "is not a term of a loss.");
  add("xrun.kl.k2", logprobs, {"Tensor"},
      "x^2 / 2, x = logprob - reference: its mean gradient is that of KL(policy || reference).");
  add("xrun.kl.k3", logprobs, {"Tensor"},
      "exp(-x) + x - 1, x = logprob - reference: unbiased and never below 0; its mean gradient is "
      "that of KL(reference || policy).");
  add("xrun.kl.loss", {{"name", "string"}}, {"function"},
      "The estimator \"k2\" or \"k3\" as a term of a loss; \"k1\" is refused.");
  register_doc({.name = "xrun.rewards",
                .kind = DocKind::kValue,
                .results = {"table"},
                .doc =
                    "Rule rewards, plain functions of an answer: exact, number, format, overlong, "
                    "json. Also by require \"xrun.rewards\"."});
  const LuaParameter text{"text", "string"};
  add("xrun.rewards.exact", {text, {"wanted", "string|number"}}, {"number"},
      "1 if an answer is `wanted`, apart from blanks around both, else 0.");
  add("xrun.rewards.last_number", {text}, {"number?"},
      "The last number of a text, without the commas between three digits; nil if there is none.");
  add("xrun.rewards.number", {text, {"wanted", "string|number"}, {"tolerance?", "number"}},
      {"number"},
      "1 if the last number of an answer is `wanted` within a relative tolerance (1e-6), else 0.");
  add("xrun.rewards.format", {text, {"pattern", "string"}}, {"number"},
      "1 if the whole answer matches a Lua pattern, apart from blanks around it, else 0.");
  add("xrun.rewards.overlong", {{"length", "number"}, {"limit", "number"}, {"margin", "number"}},
      {"number"},
      "DAPO's penalty of long answers: 0 up to limit - margin tokens, then linearly to -1 at the "
      "limit.");
  add("xrun.rewards.json", {text}, {"number"},
      "1 if an answer is one JSON value, at most 100 levels deep, else 0.");
}

}  // namespace

void open_builtin_modules(LuaState& state) {
  lua_State* L = state;
  register_module_docs();
  for (const BuiltinModule& module : builtin_modules()) {
    const StackGuard guard(L);
    const std::string name = "xrun." + std::string(module.name);
    // A chunk name that begins with = is not a file: errors point at the recipe's line instead.
    push_builtin_text(L, module.text, "=" + name);
    protected_call(L, 0, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, name.c_str());
    state.push_module(L);
    push(L, module.name);
    lua_pushvalue(L, -4);  // the module, below _LOADED, xrun and its name
    lua_rawset(L, -3);
  }
}

}  // namespace xrun
