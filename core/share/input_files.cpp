// A file matches a locked one if size and SHA-256 are equal.

#include "core/share/input_files.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/interrupt.h"
#include "core/base/sha256.h"
#include "core/data/cache/data_files.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

FileDigests sha256_store() {
  return FileDigests(cache_root() / kFileSha256Folder, std::chrono::seconds(5),
                     DigestKind::kSha256);
}

bool is_model_file(const fs::path& file) {
  const std::string name = file.filename().string(), ending = file.extension().string();
  if (name.starts_with(".") || name == "trainer_state.json") return false;
  for (const char* known : {".json", ".safetensors", ".jinja", ".model", ".txt", ".tiktoken"}) {
    if (ending == known) return is_file(file);
  }
  return false;
}

std::vector<std::string> model_files(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& file : list_folder(folder)) {
    if (is_model_file(file)) names.push_back(file.filename().string());
  }
  for (const std::string& name : named_template_files(folder)) {
    names.push_back(std::string(kNamedTemplateFolder) + "/" + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void add_local(LocalInput& input, const std::string& name, const fs::path& file,
               const std::string& xxh3 = "") {
  input.locked.files.push_back(
      {.name = name, .bytes = file_bytes(file), .sha256 = file_sha256(file), .xxh3 = xxh3});
  input.files.push_back(file);
}

void add_data(LocalInput& input, const std::string& name) {
  const std::string head = split_glob(name).first;
  for (const DataFile& file : find_data_files(name, {}, data_digests())) {
    add_local(input, file.name.substr(head.size()), file.name, file.digest);
  }
}

}  // namespace

std::pair<std::string, std::string> split_glob(const std::string& name) {
  const size_t wild = name.find_first_of("*?[");
  const size_t slash =
      name.rfind('/', wild == std::string::npos || is_file(name) ? name.size() : wild);
  if (slash == std::string::npos) return {"", name};
  return {name.substr(0, slash + 1), name.substr(slash + 1)};
}

fs::path input_folder(const LockedInput& input, const fs::path& bundle) {
  std::string all;
  for (const LockedFile& file : input.files) {
    all += file.name + "\n" + file.sha256 + "\n";
    if (!file.member.ends_with("/" + file.name)) continue;
    return bundle / file.member.substr(0, file.member.size() - file.name.size() - 1);
  }
  return bundle / "linked" / sha256_hex(all).substr(0, 16);
}

std::string path_in(const LockedInput& input, const fs::path& folder) {
  if (input.kind == InputKind::kModel) return folder.string();
  // Such a name is that file, not a glob, even if it has brackets: split_glob() would know this
  // only where the file exists.
  const bool one_file =
      input.files.size() == 1 && ("/" + input.name).ends_with("/" + input.files[0].name);
  if (input.kind == InputKind::kData && !one_file) {
    return (folder / split_glob(input.name).second).string();
  }
  return (folder / input.files.front().name).string();
}

std::string bundled_path(const LockedInput& input) {
  return input.bundled() ? path_in(input, input_folder(input, "")) : "";
}

fs::path bundles_root() { return cache_root() / "bundles"; }

std::string file_sha256(const fs::path& path) {
  return sha256_store().digest(path, [](uint64_t) { check_interrupt(); });
}

FileDigests data_digests() { return FileDigests(cache_root() / kFileDigestsFolder); }

uint64_t file_bytes(const fs::path& path) {
  std::error_code none;
  const uint64_t bytes = fs::file_size(path, none);
  return none ? 0 : bytes;
}

std::vector<fs::path> files_read_before(const LockedFile& locked) {
  std::vector<fs::path> files = sha256_store().files_with(locked.sha256);
  if (locked.xxh3.empty()) return files;
  for (const fs::path& file : data_digests().files_with(locked.xxh3)) files.push_back(file);
  return files;
}

bool is_weights(const LockedFile& file) { return file.name.ends_with(".safetensors"); }

LocalInput measure_input(const NamedInput& input, const ModelFolders& models) {
  LocalInput local;
  local.locked = {.kind = input.kind, .name = input.name, .files = {}};
  if (input.kind == InputKind::kModel) {
    const fs::path folder = models.folder(input.name);
    for (const std::string& name : model_files(folder)) add_local(local, name, folder / name);
    XRUN_CHECK(!local.files.empty(), "{}: has no file of a model", folder.string());
  } else if (input.kind == InputKind::kData) {
    add_data(local, input.name);
  } else {
    add_local(local, fs::path(input.name).filename().string(), input.name);
  }
  return local;
}

}  // namespace xrun
