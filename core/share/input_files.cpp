// A file is the locked one if its size and its SHA-256 are. Sizes are compared first, so that a
// lock of someone else's cannot make this machine read devices or large files for nothing.

#include "core/share/input_files.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/folder.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/bundle/bundle_file.h"
#include "core/data/cache/data_files.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// The limit that bundle_file.cpp has for a lock, so that every extracted one is read.
constexpr uint64_t kMostLockOfFolder = uint64_t{64} << 20;

FileDigests sha256_store() {
  return FileDigests(cache_root() / kFileSha256Folder, std::chrono::seconds(5),
                     DigestKind::kSha256);
}

FileDigests xxh3_store() { return FileDigests(cache_root() / kFileDigestsFolder); }

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

uint64_t size_of(const fs::path& file) {
  std::error_code none;
  const uint64_t bytes = fs::file_size(file, none);
  return none ? 0 : bytes;
}

void add_local(LocalInput& input, const std::string& name, const fs::path& file,
               const std::string& xxh3 = "") {
  input.locked.files.push_back(
      {.name = name, .bytes = size_of(file), .sha256 = file_sha256(file), .xxh3 = xxh3});
  input.files.push_back(file);
}

void add_data(LocalInput& input, const std::string& name) {
  const std::string head = split_glob(name).first;
  for (const DataFile& file : find_data_files(name, {}, xxh3_store())) {
    add_local(input, file.name.substr(head.size()), file.name, file.digest);
  }
}

// ---- looking for a locked input

bool is_locked_file(const fs::path& file, const LockedFile& locked) {
  if (!is_file(file) || size_of(file) != locked.bytes) return false;
  return file_sha256(file) == locked.sha256;
}

// The files in the extracted bundles that have a digest.
std::vector<fs::path> bundled_files(const std::string& sha256) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const fs::path& folder : list_folder(bundles_root(), none)) {
    try {
      const std::string text = read_file(folder / kBundleLock, kMostLockOfFolder);
      if (text.find(sha256) == std::string::npos) continue;
      const BundleLock lock = parse_lock(text, folder.string());
      for (const LockedFile& member : lock.members) {
        if (member.sha256 == sha256) found.push_back(folder / member.name);
      }
    } catch (const Error&) {
      // A folder that is being made or removed.
    }
  }
  return found;
}

std::optional<fs::path> find_by_digest(const LockedFile& locked, const ModelFolders& models) {
  const auto first = [&](const std::vector<fs::path>& files) -> std::optional<fs::path> {
    for (const fs::path& file : files) {
      if (is_locked_file(file, locked)) return fs::absolute(file);
    }
    return std::nullopt;
  };
  std::vector<fs::path> cached;
  for (const fs::path& folder : models.cached) cached.push_back(folder / locked.name);
  if (auto file = first(bundled_files(locked.sha256))) return file;
  if (auto file = first(sha256_store().files_with(locked.sha256))) return file;
  if (!locked.xxh3.empty()) {
    if (auto file = first(xxh3_store().files_with(locked.xxh3))) return file;
  }
  return first(cached);
}

// Replaces a link by one rename, so that another process never misses it.
void link_to(const fs::path& link, const fs::path& target) {
  std::error_code none;
  if (fs::read_symlink(link, none) == target) return;
  make_dirs(link.parent_path());
  const fs::path made = link.string() + fmt::format(".tmp{}", ::getpid());
  fs::remove(made, none);
  fs::create_symlink(target, made);
  fs::rename(made, link);
}

// The folder in an extracted bundle that has, or will have, the files of an input.
fs::path folder_of(const LockedInput& input, const fs::path& folder) {
  for (const LockedFile& file : input.files) {
    if (!file.member.ends_with("/" + file.name)) continue;
    return folder / file.member.substr(0, file.member.size() - file.name.size() - 1);
  }
  std::string first = input.files.front().sha256.substr(0, 16);
  return folder / "linked" / first;
}

// The path that opens an input whose files are in a folder under their locked names.
std::string path_in(const LockedInput& input, const fs::path& folder) {
  if (input.kind == InputKind::kModel) return folder.string();
  if (input.kind == InputKind::kData) return (folder / split_glob(input.name).second).string();
  return (folder / input.files.front().name).string();
}

// The files that the input's name leads to on this machine, one per locked file.
std::vector<fs::path> named_files(const LockedInput& input, const ModelFolders& models) {
  std::vector<fs::path> files;
  const fs::path model = input.kind == InputKind::kModel ? models.folder(input.name) : fs::path();
  for (const LockedFile& file : input.files) {
    files.push_back(input.kind == InputKind::kModel ? model / file.name
                    : input.kind == InputKind::kData
                        ? fs::path(split_glob(input.name).first + file.name)
                        : fs::path(input.name));
  }
  return files;
}

std::vector<Difference> differences_of(const LockedInput& input,
                                       const std::vector<fs::path>& files) {
  std::vector<Difference> out;
  for (size_t i = 0; i < files.size(); ++i) {
    const LockedFile& locked = input.files[i];
    const std::string path = fmt::format("{} {}{}", input_kind_name(input.kind), input.name,
                                         input.kind == InputKind::kModel ? "/" + locked.name : "");
    if (!is_file(files[i])) {
      out.push_back({path, locked.sha256, "absent"});
    } else if (size_of(files[i]) != locked.bytes) {
      out.push_back(
          {path + " bytes", std::to_string(locked.bytes), std::to_string(size_of(files[i]))});
    } else if (const std::string digest = file_sha256(files[i]); digest != locked.sha256) {
      out.push_back({path + " sha256", locked.sha256, digest});
    }
  }
  return out;
}

// A glob must match the locked files and no other one.
void add_unlocked(const LockedInput& input, std::vector<Difference>& out) {
  const auto [head, pattern] = split_glob(input.name);
  if (input.kind != InputKind::kData || pattern.find_first_of("*?[") == std::string::npos) return;
  for (const DataFile& file : find_data_files(input.name, {}, xxh3_store())) {
    const std::string name = file.name.substr(head.size());
    const bool known = std::any_of(input.files.begin(), input.files.end(),
                                   [&](const LockedFile& one) { return one.name == name; });
    if (!known) out.push_back({fmt::format("data {}", file.name), "absent", file.digest});
  }
}

std::string missing_text(const LockedInput& input, const std::string& reason) {
  const std::string size = format_bytes(static_cast<double>(input.bytes()));
  if (input.kind == InputKind::kModel) {
    return fmt::format("model \"{}\" ({}) is neither in the bundle nor in a cache: {}", input.name,
                       size, reason);
  }
  const LockedFile& file = input.files.front();
  const std::string fix =
      file_access_limited()
          ? "put the file there; a recipe that is not trusted reads its own folder, --read FOLDER "
            "names another one"
          : fmt::format("link the file there: ln -s FILE {}", shell_word(input.name));
  return fmt::format(
      "{} \"{}\" ({}, SHA-256 {}) is neither in the bundle nor known here; {}; a bundle made with "
      "--with-data has it",
      input_kind_name(input.kind), input.name, size, file.sha256, fix);
}

}  // namespace

std::pair<std::string, std::string> split_glob(const std::string& name) {
  const size_t wild = name.find_first_of("*?[");
  const size_t slash =
      name.rfind('/', wild == std::string::npos || is_file(name) ? name.size() : wild);
  if (slash == std::string::npos) return {"", name};
  return {name.substr(0, slash + 1), name.substr(slash + 1)};
}

std::string bundled_path(const LockedInput& input) {
  return input.bundled() ? path_in(input, folder_of(input, "")) : "";
}

fs::path bundles_root() { return cache_root() / "bundles"; }

std::string file_sha256(const fs::path& path) {
  return sha256_store().digest(path, [](uint64_t) { check_interrupt(); });
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

FoundInput find_input(const LockedInput& input, const fs::path& folder,
                      const ModelFolders& models) {
  const fs::path own = folder_of(input, folder);
  if (input.bundled()) return {path_in(input, own), "in the bundle", {}, ""};
  FoundInput found;
  std::string reason;
  try {
    found.differences = differences_of(input, named_files(input, models));
    if (found.differences.empty()) add_unlocked(input, found.differences);
    if (found.differences.empty()) {
      found.where = "by its name";
      found.path = input.name;
      return found;
    }
  } catch (const Error& error) {
    reason = error.what();
  }
  // All files or none: half an input would fail later, with a worse message.
  std::vector<std::pair<std::string, fs::path>> links;
  for (const LockedFile& file : input.files) {
    if (!file.member.empty()) continue;
    const std::optional<fs::path> at = find_by_digest(file, models);
    if (!at) break;
    links.emplace_back(file.name, *at);
  }
  const auto wanted = std::count_if(input.files.begin(), input.files.end(),
                                    [](const LockedFile& file) { return file.member.empty(); });
  if (std::ssize(links) == wanted) {
    for (const auto& [name, target] : links) link_to(own / name, target);
    return {path_in(input, own),
            fmt::format("found by digest: {}", links.front().second.string()),
            {},
            ""};
  }
  // Nothing has the name if every file is absent.
  const bool none = std::all_of(found.differences.begin(), found.differences.end(),
                                [](const Difference& one) { return one.now == "absent"; });
  if (none) {
    found.differences.clear();
    found.missing = missing_text(input, reason.empty() ? "it is not here" : reason);
  } else {
    found.path = input.name;  // for --force
    found.where = "by its name, with other bytes";
  }
  return found;
}

}  // namespace xrun
