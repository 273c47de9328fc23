#pragma once
// The chat templates that a model folder holds, by name.

#include <filesystem>
#include <string>

#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Returns chat_template.jinja as "default" and additional_chat_templates/NAME.jinja as NAME, in
// alphabetical order; if there are none, what the "chat_template" of tokenizer_config.json says: a
// text ("default", empty: none), an object of texts by name, or a list of {"name", "template"}.
// Empty if nothing does. Throws Error naming file and key; `config_name` is the path of `config`.
NamedTexts read_folder_templates(const std::filesystem::path& dir, const Json& config,
                                 const std::string& config_name);

}  // namespace xrun
