// A table of sizes becomes a folder of random weights in the cache, once.

#include "lua/bind/train/policy_options.h"

#include "core/config/config_field.h"
#include "core/data/cache/data_files.h"
#include "core/model/weights/model_fetch.h"
#include "core/model/weights/model_registry.h"
#include "core/train/models/random_model.h"
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

namespace {

// The data that the config names: a wrong path is better reported before a long download.
void check_config_data(lua_State* L) {
  const Json* const data = recipe_context(L).config.values().find("data");
  if (data == nullptr || !data->is_array()) return;
  for (const Json& source : data->as_array()) {
    const Json* const path = source.is_object() ? source.find("path") : nullptr;
    if (path == nullptr || !path->is_string()) continue;
    check_data_files(local_input(L, InputKind::kData, path->as_string()));
  }
}

Notice print_to_console(lua_State* L) {
  return
      [console = session_of(L).console](const std::string& text) { console->print_escaped(text); };
}

}  // namespace

std::filesystem::path find_model_folder(lua_State* L, const std::string& name) {
  const std::string local = local_input(L, InputKind::kModel, name);
  const KnownModel* const known = find_known(local);
  if (known != nullptr && !is_fetched(*known)) check_config_data(L);
  return resolve_model(local, print_to_console(L));
}

std::filesystem::path read_policy_folder(lua_State* L, int i) {
  if (!lua_istable(L, i)) return find_model_folder(L, arg<std::string>(L, i, "model"));
  // Random weights. A resume compares the configuration and, with the data, the tokenizer's files.
  Json sizes = to_json(L, i);
  check_fields(sizes, "model");
  add_defaults(sizes, "model");
  return cached_random_model(random_model_of(sizes, static_cast<uint64_t>(config_whole(L, "seed"))),
                             print_to_console(L));
}

}  // namespace xrun
