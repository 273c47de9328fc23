#pragma once
// The folder of a model's named chat templates, shared by their reader and the export.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

inline constexpr const char* kNamedTemplateFolder = "additional_chat_templates";

// Returns the names of the files in that folder of `dir`, in order: "tool_use.jinja"; none if there
// is no such folder. Throws FileError if it cannot be listed: a model without its templates would
// render in another way.
std::vector<std::string> named_template_files(const std::filesystem::path& dir);

}  // namespace xrun
