// Sizes are compared before digests, so that a stranger's lock cannot make this machine read
// devices or large files for nothing.

#include "core/share/input_search.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/bundle/bundle_file.h"
#include "core/data/cache/data_files.h"
#include "core/share/missing_input.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

bool may_read(const fs::path& file) {
  try {
    check_read(file);
    return true;
  } catch (const Error&) {
    return false;
  }
}

InputMatch match(const fs::path& file, const LockedFile& locked) {
  if (!is_file(file)) return InputMatch::kAbsent;
  if (file_bytes(file) != locked.bytes) return InputMatch::kOther;
  if (!may_read(file)) return InputMatch::kRefused;
  return file_sha256(file) == locked.sha256 ? InputMatch::kLocked : InputMatch::kOther;
}

// Returns the files of extracted bundles that have this digest.
std::vector<fs::path> bundled_files(const std::string& sha256) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const fs::path& folder : list_folder(bundles_root(), none)) {
    try {
      const std::string text = read_file(folder / kBundleLock, kMostLockBytes);
      // A search of the text is much faster than parsing every lock.
      if (text.find(sha256) == std::string::npos) continue;
      const BundleLock lock = parse_lock(text, folder.string());
      for (const LockedFile& member : lock.members) {
        if (member.sha256 == sha256) found.push_back(folder / member.name);
      }
    } catch (const Error&) {
      // The folder is being made or removed.
    }
  }
  return found;
}

std::optional<fs::path> find_by_digest(const LockedFile& locked, const ModelFolders& models) {
  // A name or an old digest is only a hint: the file may have changed, so it is hashed again.
  const auto first = [&](const std::vector<fs::path>& files) -> std::optional<fs::path> {
    for (const fs::path& file : files) {
      if (match(file, locked) == InputMatch::kLocked) return absolute_path(file);
    }
    return std::nullopt;
  };
  std::vector<fs::path> cached;
  for (const fs::path& folder : models.cached) cached.push_back(folder / locked.name);
  if (auto file = first(bundled_files(locked.sha256))) return file;
  if (auto file = first(files_read_before(locked))) return file;
  return first(cached);
}

// Returns all wanted files of an input, or none: half an input is useless.
std::vector<fs::path> find_by_digest(const LockedInput& input, const ModelFolders& models) {
  std::vector<fs::path> files;
  for (const LockedFile* file : wanted_files(input)) {
    const std::optional<fs::path> found = find_by_digest(*file, models);
    if (!found) return {};
    files.push_back(*found);
  }
  return files;
}

// Returns the folder part of the input's name, "" if it has none; for a model the whole name.
fs::path named_folder(const LockedInput& input) {
  if (input.kind == InputKind::kModel) return input.name;
  if (input.kind == InputKind::kData) return split_glob(input.name).first;
  return fs::path(input.name).parent_path();
}

// The worst file decides: half an input would fail later, with a worse message.
InputMatch worst_match(const std::vector<fs::path>& files,
                       const std::vector<const LockedFile*>& locked) {
  InputMatch worst = InputMatch::kLocked;
  for (size_t i = 0; i < files.size(); ++i) worst = std::min(worst, match(files[i], *locked[i]));
  return worst;
}

NearFiles files_in(const fs::path& folder, const LockedInput& input) {
  NearFiles found;
  const std::vector<const LockedFile*> wanted = wanted_files(input);
  // Each file can only lower it.
  found.match = InputMatch::kLocked;
  for (const LockedFile* locked : wanted) {
    found.files.push_back(folder / locked->name);
    const InputMatch own = match(found.files.back(), *locked);
    found.match = std::min(found.match, own);
    if (own != InputMatch::kLocked) found.others.push_back(locked->name);
  }
  return found;
}

// A folder may hold the input's own folders ("recipes/data/pairs.jsonl") or its files alone; a path
// of --read may be the file itself.
NearFiles files_below(const fs::path& root, const LockedInput& input) {
  NearFiles best;
  const std::vector<const LockedFile*> wanted = wanted_files(input);
  // If both lack files, prefer the folder that has more of them.
  const auto take = [&](NearFiles found) {
    const size_t lacks = best.files.empty() ? wanted.size() : best.others.size();
    if (found.match > best.match || (found.match == best.match && found.others.size() < lacks)) {
      best = std::move(found);
    }
  };
  if (is_file(root)) {
    if (wanted.size() == 1) take({match(root, *wanted[0]), {root}});
    return best;
  }
  const fs::path named = named_folder(input);
  // An absolute name is a path on the author's machine and is not joined to this root.
  if (named.is_relative() && !named.empty()) take(files_in(root / named, input));
  if (input.kind == InputKind::kModel) take(files_in(root / named.filename(), input));
  // Tried last, so that of equal matches the one under the input's own folders wins.
  take(files_in(root, input));
  return best;
}

// Makes or replaces a link by one rename, so that another process never sees it missing.
void link_to(const fs::path& link, const fs::path& target) {
  std::error_code code;
  if (fs::read_symlink(link, code) == target) return;
  make_dirs(link.parent_path());
  // The process number keeps two processes that open one bundle apart.
  const fs::path made = link.string() + fmt::format(".tmp{}", ::getpid());
  fs::remove(made, code);
  fs::create_symlink(target, made, code);
  if (!code) fs::rename(made, link, code);
  XRUN_CHECK(!code, "{}: cannot be linked to {}: {}", link.string(), target.string(),
             code.message());
}

// Returns the files that the input's name leads to on this machine, one per locked file.
std::vector<fs::path> named_files(const LockedInput& input, const ModelFolders& models) {
  std::vector<fs::path> files;
  std::error_code none;
  fs::path model;
  if (input.kind == InputKind::kModel) {
    model = fs::is_directory(input.name, none) ? fs::path(input.name) : models.folder(input.name);
  }
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
    } else if (file_bytes(files[i]) != locked.bytes) {
      out.push_back(
          {path + " bytes", std::to_string(locked.bytes), std::to_string(file_bytes(files[i]))});
    } else if (const std::string digest = file_sha256(files[i]); digest != locked.sha256) {
      out.push_back({path + " sha256", locked.sha256, digest});
    }
  }
  return out;
}

// Adds the files that a glob matches and the lock does not have.
void add_unlocked(const LockedInput& input, std::vector<Difference>& out) {
  const auto [head, pattern] = split_glob(input.name);
  if (input.kind != InputKind::kData || pattern.find_first_of("*?[") == std::string::npos) return;
  for (const DataFile& file : find_data_files(input.name, {}, data_digests())) {
    const std::string name = file.name.substr(head.size());
    const bool known = std::any_of(input.files.begin(), input.files.end(),
                                   [&](const LockedFile& one) { return one.name == name; });
    if (!known) out.push_back({fmt::format("data {}", file.name), "absent", file.digest});
  }
}

// Links the files, in the order of wanted_files, into the bundle's folder.
FoundInput linked(const LockedInput& input, const fs::path& own, const std::vector<fs::path>& files,
                  std::string where) {
  const std::vector<const LockedFile*> wanted = wanted_files(input);
  for (size_t i = 0; i < wanted.size(); ++i) {
    link_to(own / wanted[i]->name, absolute_path(files[i]));
  }
  return {.path = path_in(input, own), .where = std::move(where)};
}

// Returns true if the input's name leads to the locked bytes. Otherwise sets the differences of
// `found` and adds the location to `missing`.
bool find_by_name(const LockedInput& input, const ModelFolders& models, FoundInput& found,
                  MissingInput& missing) {
  const fs::path name = input.name;
  const std::string location =
      name.is_relative() ? input.name + " in the current folder" : input.name;
  std::vector<fs::path> files;
  try {
    files = named_files(input, models);
  } catch (const Error& error) {
    missing.add_line(location, error.what());
    return false;
  }
  std::vector<const LockedFile*> locked;
  for (const LockedFile& file : input.files) locked.push_back(&file);
  try {
    // Only files of the locked sizes are worth a --read.
    if (worst_match(files, locked) == InputMatch::kRefused) {
      missing.add(location, InputMatch::kRefused, files);
      return false;
    }
    found.differences = differences_of(input, files);
    if (found.differences.empty()) add_unlocked(input, found.differences);
  } catch (const Error& error) {
    found.differences.clear();
    missing.add_line(location, error.what());
    return false;
  }
  if (!found.differences.empty()) {
    missing.add(location, InputMatch::kAbsent, {});
    return false;
  }
  found.where = "by its name";
  found.path = input.name;
  return true;
}

}  // namespace

FoundInput find_input(const LockedInput& input, const InputSearch& search) {
  const fs::path own = input_folder(input, search.folder);
  if (input.bundled()) return {.path = path_in(input, own), .where = "in the bundle"};
  FoundInput found;
  MissingInput missing(input);
  // The name comes first: on the author's machine nothing is searched.
  if (find_by_name(input, search.models, found, missing)) return found;

  const fs::path folder = search.bundle.parent_path(), beside = folder.empty() ? "." : folder;
  std::vector<std::pair<std::string, fs::path>> locations = {
      {fmt::format("the bundle's folder, {}", beside.string()), beside}};
  for (const fs::path& path : search.named) locations.emplace_back(path.string(), path);
  for (const auto& [location, root] : locations) {
    const NearFiles near = files_below(root, input);
    if (near.match == InputMatch::kLocked) {
      return linked(input, own, near.files, fmt::format("found in {}", root.string()));
    }
    missing.add(location, near);
  }
  if (search.named.empty()) missing.add_line("--read and --set", "name no path");

  if (const std::vector<fs::path> files = find_by_digest(input, search.models); !files.empty()) {
    return linked(input, own, files, fmt::format("found by digest: {}", files.front().string()));
  }
  missing.add_line("the caches and files read before, by SHA-256", match_text(InputMatch::kAbsent));

  const bool no_file = std::all_of(found.differences.begin(), found.differences.end(),
                                   [](const Difference& one) { return one.now == "absent"; });
  if (no_file) {
    found.differences.clear();
    missing.write(found);
  } else {
    found.path = input.name;  // for --force
    found.where = "by its name, with other bytes";
  }
  return found;
}

}  // namespace xrun
