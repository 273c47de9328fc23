#pragma once
// Adapters as PEFT folders: adapter_config.json and adapter_model.safetensors.

#include <filesystem>
#include <memory>
#include <string>

#include "core/model/weights/adapter.h"

namespace xrun {

struct ModelConfig;

// Returns true if a folder holds an adapter.
bool is_adapter(const std::filesystem::path& dir);

// Returns base_model_name_or_path of the folder's adapter_config.json; "" if it has none.
std::string adapter_base(const std::filesystem::path& dir);

// Reads a folder for a model of this config; factors come as fp32. Throws Error that names the file
// and the key that is not supported (another peft_type, use_dora, rank_pattern, alpha_pattern,
// modules_to_save, a bias, an init that changes the base), or that lists missing, unexpected and
// misshapen factors.
std::shared_ptr<Adapter> read_adapter(const std::filesystem::path& dir, const ModelConfig& config);

// Writes a folder that PEFT opens; `base` becomes base_model_name_or_path. `out` appears whole or
// not at all; an earlier adapter is replaced. Throws Error.
void write_adapter(const Adapter& adapter, const ModelConfig& config, const std::string& base,
                   const std::filesystem::path& out);

}  // namespace xrun
