#include "lua/bind/modules.h"

#include "lua/prompt/prompt.h"

namespace xrun {

const std::vector<OpenModule>& engine_modules() {
  static const std::vector<OpenModule> modules = {
      open_tensor,  open_config,    open_metrics,   open_view,     open_policy,
      open_scorer,  open_data_sets, open_tokenizer, open_template, open_shuffle,
      open_mixture, open_pack,      open_adamw,     open_run,      open_step_verbs,
  };
  return modules;
}

void register_docs() {
  LuaState state;
  for (OpenModule open : engine_modules()) open(state);
  open_lua_modules(state);
  open_require(state);
  Prompt prompt(state, std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{}));
  add_prompt_commands(prompt);
  for (const PromptCommand& command : prompt.commands()) {
    DocEntry entry{.name = ":" + command.name, .doc = command.doc};
    if (!command.arguments.empty()) entry.parameters = {{command.arguments, ""}};
    register_doc(std::move(entry));
  }
}

}  // namespace xrun
