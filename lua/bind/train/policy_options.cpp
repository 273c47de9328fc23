// A table of sizes becomes a folder of random weights in the cache, once.

#include "lua/bind/train/policy_options.h"

#include "core/config/config_field.h"
#include "core/model/weights/model_registry.h"
#include "core/train/models/new_model.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"

namespace xrun {

std::optional<AdapterOptions> read_lora(Json lora) {
  if (lora.is_null()) return std::nullopt;
  check_fields(lora, "lora");
  add_defaults(lora, "lora");
  AdapterOptions options;
  options.rank = lora.at("rank").as_int();
  options.alpha = lora.at("alpha").as_double();
  options.dropout = lora.at("dropout").as_double();
  options.by_root = lora.at("rslora").as_bool();
  options.zero_a = lora.at("zero").as_string() == "a";
  options.targets.clear();
  for (const Json& target : lora.at("targets").as_array()) {
    options.targets.push_back(target.as_string());
  }
  return options;
}

std::vector<std::string> read_train(const Json& patterns) {
  if (patterns.is_null()) return {};
  check_fields(patterns, "train");
  std::vector<std::string> out;
  for (const Json& pattern : patterns.as_array()) out.push_back(pattern.as_string());
  return out;
}

std::filesystem::path read_policy_folder(lua_State* L, int i) {
  Console& console = *session_of(L).console;
  const Notice notice = [&](const std::string& text) { console.print_escaped(text); };
  if (!lua_istable(L, i)) {
    return resolve_model(local_input(L, InputKind::kModel, arg<std::string>(L, i, "model")),
                         notice);
  }
  // Random weights. A resume compares the configuration and, with the data, the tokenizer's files.
  Json sizes = to_json(L, i);
  check_fields(sizes, "model");
  add_defaults(sizes, "model");
  return cached_new_model(new_model_of(sizes, static_cast<uint64_t>(config_whole(L, "seed"))),
                          notice);
}

}  // namespace xrun
