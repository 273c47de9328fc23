#pragma once
// Folders: their entries, and the user's cache folder.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace xrun {

// Returns the paths of the folder's entries, by name; none if there is no such folder. Throws
// FileError if the system does not list it to the end.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& dir);

// Sets `code` instead of throwing, and returns the entries listed before the failure.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& dir,
                                               std::error_code& code);

struct StepFile {
  int64_t step;
  std::filesystem::path path;
};

// Returns the files of a folder whose names are step_N and `ending` ("step_0000012.jsonl"), by
// step; none if the folder is missing or cannot be listed.
std::vector<StepFile> step_files(const std::filesystem::path& dir, std::string_view ending);

// Returns the current folder. Throws FileError with the fix if it was removed.
std::filesystem::path working_folder();

// Returns the path from the root, as it is written: links and ".." stay. Throws FileError if it is
// relative and the current folder was removed.
std::filesystem::path absolute_path(const std::filesystem::path& path);

// Returns the absolute path of `dir`, or of the nearest folder above it that exists; "" if the
// current folder is gone. A path that cannot be examined counts as missing.
std::filesystem::path nearest_existing(const std::filesystem::path& dir);

// The folder of a model's named chat templates. It is here because core/text/chat reads it,
// core/model/weights exports it, and neither may include the other.
inline constexpr const char* kNamedTemplateFolder = "additional_chat_templates";

// Returns the sorted names of the files in that folder of `dir` ("tool_use.jinja"); none if there
// is no such folder. Throws FileError if it cannot be listed: a model without its templates would
// render differently.
std::vector<std::string> named_template_files(const std::filesystem::path& dir);

// Returns the fix for a path with a leading ~, "write $HOME/a.jsonl: ..." for ~/a.jsonl; "" for
// another path. The shell does not expand it inside --set data.1.path=~/a.jsonl.
std::string tilde_fix(std::string_view path);

// Returns the user's folder for models, token caches and sidecars: $XRUN_CACHE, else
// $XDG_CACHE_HOME/xrun, else ~/.cache/xrun; it need not exist. Throws Error if neither these
// variables nor HOME is set.
std::filesystem::path cache_root();

}  // namespace xrun
