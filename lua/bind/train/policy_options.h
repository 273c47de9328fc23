#pragma once
// The settings of xrun.policy besides types: its folder, its adapter, its trained weights.

#include <filesystem>
#include <lua.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/model/weights/adapter.h"

namespace xrun {

// Reads a `lora` table; nullopt for null. Throws Error as check_fields does.
std::optional<AdapterOptions> read_lora(Json lora);

// Reads the patterns of `train`; none for null. Throws Error as check_fields does.
std::vector<std::string> read_train(const Json& patterns);

// Returns the folder of a model name; a known model that is missing is downloaded. Throws Error as
// resolve_model does, and before a download if the config names data that does not exist.
std::filesystem::path find_model_folder(lua_State* L, const std::string& name);

// Returns the folder of the model at index i: a name, or a table of sizes, from which a random
// model is made. Throws Error as resolve_model does.
std::filesystem::path read_policy_folder(lua_State* L, int i);

}  // namespace xrun
