#pragma once
// The model families that we know: one reader of config.json for each model_type. A new family is a
// reader and a line of the table in families.cpp.

#include <string>

#include "core/model/weights/config_reader.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

struct ModelFamily {
  const char* model_type;    // "llama"
  const char* architecture;  // "LlamaForCausalLM"
  void (*read)(const ConfigReader&, ModelConfig&);
};

// Returns a family. Throws Error, with `name` in front, that lists the known ones.
const ModelFamily& family_named(const std::string& model_type, const std::string& name);

}  // namespace xrun
