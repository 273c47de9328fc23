// A name of a known model comes before the repositories of Hugging Face's cache, and after a
// folder.

#include "core/model/weights/model_registry.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/folder.h"
#include "core/base/hub_models.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/model/weights/adapter_files.h"
#include "core/model/weights/run_folder.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// Returns true if a name can be ORG/NAME or NAME, and cannot leave a folder.
bool is_repository_name(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
  });
  return plain && !name.empty() && name.front() != '/' && name.front() != '.' &&
         name.back() != '/' && std::count(name.begin(), name.end(), '/') <= 1 &&
         name.find("..") == std::string::npos;
}

// Returns the snapshot of a repository's "main", or "" if the cache has none.
fs::path find_snapshot(const fs::path& cache, const std::string& name) {
  if (cache.empty() || !is_repository_name(name)) return {};
  std::string folder = "models--" + name;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, "--");
  }
  const fs::path ref = cache / folder / "refs/main";
  std::error_code code;
  if (!fs::exists(ref, code)) return {};
  // refs/main holds the hash of the commit that "main" was at the last download, and a line end.
  std::string revision = read_file(ref, 4096);
  while (!revision.empty() && std::isspace(static_cast<unsigned char>(revision.back()))) {
    revision.pop_back();
  }
  // A revision is the hash of a commit; anything else might lead out of the folder.
  if (revision.empty() || revision.find_first_of("/.") != std::string::npos) return {};
  const fs::path snapshot = cache / folder / "snapshots" / revision;
  return fs::exists(snapshot / "config.json", code) ? snapshot : fs::path();
}

// Returns the name in a folder that is nearest to one, or "".
std::string nearest_entry(const fs::path& folder, const std::string& name) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, code), end; !code && at != end;
       at.increment(code)) {
    names.push_back(at->path().filename().string());
  }
  return nearest_name(name, names);
}

// Returns the model's folder beside a missing one whose name is nearest, or the folder of that name
// in the folder whose name is nearest to its parent's ("run7/hf" for "rum7/hf"), or "".
std::string nearest_folder(const fs::path& missing) {
  const fs::path parent = missing.parent_path();
  std::vector<std::string> names;
  std::error_code code;
  if (!parent.empty() && !fs::exists(parent, code)) {
    const std::string near = nearest_entry(parent.parent_path(), parent.filename().string());
    const fs::path folder = parent.parent_path() / near / missing.filename();
    const bool found = !near.empty() && fs::exists(folder / "config.json", code);
    return found ? folder.string() : "";
  }
  for (fs::directory_iterator at(parent.empty() ? "." : parent, code), end; !code && at != end;
       at.increment(code)) {
    std::error_code none;
    if (fs::exists(at->path() / "config.json", none)) {
      names.push_back(at->path().filename().string());
    }
  }
  const std::string near = nearest_name(missing.filename().string(), names);
  return near.empty() ? "" : (parent / near).string();
}

// The likeliest mistakes get their own fix: a GGUF file, a misspelling, a repository not fetched.
[[noreturn]] void fail_to_resolve(const std::string& name, const char* what,
                                  const fs::path& cache) {
  std::error_code code;
  if (fs::is_regular_file(name, code)) {
    const bool gguf = fs::path(name).extension() == ".gguf";
    throw UsageError(fmt::format(
        "{} \"{}\" is a file, wanted a Hugging Face folder{}", what, name,
        gguf ? "; make one: " + called_as() + " import " + shell_word(name) + " OUT" : ""));
  }
  if (const std::string of_run = run_folder_text(name); !of_run.empty()) {
    throw UsageError(fmt::format("{} \"{}\": there is no such folder; {}", what, name, of_run));
  }
  std::string near = nearest_model_name(name);
  if (near.empty()) near = nearest_folder(name);
  const bool repository = is_repository_name(name) && name.find('/') != std::string::npos;
  const std::string home = tilde_fix(name);
  throw UsageError(fmt::format(
      "{} \"{}\": there is no such folder, no such name in `xrun models`{}, and no such "
      "repository in the Hugging Face cache {}; {}",
      what, name, near.empty() ? "" : " (did you mean " + near + "?)", cache.string(),
      !home.empty() ? home
      // The shipped recipes name their tokenizer from the root of a checkout.
      : name.starts_with("recipes/data/")
          ? "xrun init DIR --recipe NAME makes a folder with a recipe and its data"
      : repository && near.empty()
          ? "fetch it: hf download " + name
          : "give a folder, a name that `xrun models` lists, or ORG/NAME after "
            "`hf download ORG/NAME`"));
}

}  // namespace

void check_model_name(const std::string& name) {
  if (name.empty()) return;
  std::error_code none;
  // Only the first component is examined: a deeper one may lie behind a link out of this folder.
  const fs::path first = *fs::path(name).begin();
  const bool is_path = !is_repository_name(name) || fs::exists(fs::symlink_status(first, none));
  if (is_path) check_read(name);
}

fs::path resolve_model(const std::string& name, const Notice& notice, const char* what) {
  check_model_name(name);
  std::error_code code;
  if (fs::is_directory(name, code)) return name;
  if (code && code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory) {
    throw UsageError(fmt::format("{} \"{}\": cannot be opened: {}", what, name, code.message()));
  }
  // A folder of that name comes first, so that a local model can hide a known one.
  if (const KnownModel* model = find_known(name)) return fetch_model(*model, notice);
  const fs::path cache = hugging_face_hub();
  if (const fs::path snapshot = find_snapshot(cache, name); !snapshot.empty()) return snapshot;
  fail_to_resolve(name, what, cache);
}

fs::path find_model(const std::string& name) {
  check_model_name(name);
  std::error_code code;
  const KnownModel* known = fs::is_directory(name, code) ? nullptr : find_known(name);
  if (known != nullptr && !is_fetched(*known)) {
    throw UsageError(
        fmt::format("model \"{0}\" is not fetched yet: {1} models get {0}", name, called_as()));
  }
  return resolve_model(name);
}

std::vector<fs::path> cached_models() {
  std::vector<fs::path> found;
  std::error_code none;
  const auto add = [&](const fs::path& folder) {
    if (fs::exists(folder / "config.json", none)) found.push_back(folder);
  };
  for (const fs::path& folder : list_folder(models_root(), none)) add(folder);
  for (const fs::path& repository : hub_models()) {
    for (const fs::path& snapshot : list_folder(repository / "snapshots", none)) add(snapshot);
  }
  return found;
}

fs::path resolve_base_model(const fs::path& adapter, const Notice& notice) {
  const std::string name = adapter_base(adapter);
  XRUN_CHECK(!name.empty(), "{}: adapter_config.json names no base_model_name_or_path",
             adapter.string());
  // A relative path beside the adapter is right wherever the program runs.
  const bool relative = fs::path(name).is_relative();
  const fs::path beside = (adapter / name).lexically_normal();
  std::error_code none;
  if (relative && fs::exists(beside / "config.json", none)) {
    return resolve_model(beside.string(), notice);
  }
  try {
    return resolve_model(name, notice);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: base_model_name_or_path of adapter_config.json: {}{}",
                                 adapter.string(), error.what(),
                                 relative ? "; nor is there a model in " + beside.string() : ""));
  }
}

}  // namespace xrun
