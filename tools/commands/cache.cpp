// xrun cache ls | verify | rm lists, checks and removes token caches, and checks sidecars. (`xrun
// cache RECIPE.lua` builds them: engine/recipe.cpp.)

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/console/terminal/console.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/data/cache/cache_folder.h"
#include "core/data/cache/cache_reader.h"
#include "core/data/cache/file_digests.h"
#include "core/data/cache/sidecar.h"
#include "core/data/rows/ledger.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

struct CacheArguments {
  bool json = false;
  bool unfinished = false;
  bool all = false;
  std::vector<std::string> keys;  // for verify, folders too
};

fs::path store() { return cache_root() / "data"; }

void print_line(const Json& row) { std::printf("%s\n", dump_json(row).c_str()); }

// Other folders of the cache that grow. They have no manifests, and an active run may open their
// files again, so `rm` leaves them to the user.
constexpr const char* kOtherFolders[] = {"bundles", "columns", "projections", "untrusted"};

uint64_t folder_bytes(const fs::path& dir) {
  uint64_t bytes = 0;
  std::error_code code;
  for (fs::recursive_directory_iterator at(dir, code), end; !code && at != end;
       at.increment(code)) {
    std::error_code gone;  // removed meanwhile
    if (!at->is_regular_file(gone)) continue;
    const uint64_t size = at->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

// Prints the other folders and the command that removes them; nothing if there are none.
void print_others() {
  std::string found, folders;
  for (const char* name : kOtherFolders) {
    const fs::path dir = cache_root() / name;
    std::error_code code;
    if (!fs::is_directory(dir, code)) continue;
    add_item(found,
             fmt::format("{} {}", name, format_bytes(static_cast<double>(folder_bytes(dir)))));
    folders += " " + shell_word(dir.string());
  }
  if (found.empty()) return;
  std::printf("beside the token caches: %s; to remove them while no run is active: rm -r%s\n",
              found.c_str(), shown_text(folders).c_str());
}

// Returns the first file and the number of others, or the reason that the folder is unreadable.
std::string files_text(const CacheFolder& cache) {
  if (cache.state == CacheState::kUnreadable)
    return shown_text(cache.problem, Blanks::kBreaksMarked);
  if (cache.files.empty()) return "";
  const std::string first =
      shown_text(fs::path(cache.files[0]).filename().string(), Blanks::kBreaksMarked);
  return cache.files.size() == 1 ? first
                                 : fmt::format("{} and {} more", first, cache.files.size() - 1);
}

Json row_of(const CacheFolder& cache) {
  Json row = Json::object();
  row.set("key", cache.dir.filename().string());
  row.set("dir", cache.dir.string());
  row.set("state", cache_state_name(cache.state));
  row.set("row_type", cache.row_type);
  row.set("name", cache.name);
  Json files = Json::array();
  for (const std::string& file : cache.files) files.push_back(file);
  row.set("files", std::move(files));
  row.set("rows", cache.rows);
  row.set("tokens", cache.tokens);
  row.set("bytes", cache.bytes);
  row.set("changed_s", cache.changed_s);
  if (!cache.problem.empty()) row.set("problem", cache.problem);
  return row;
}

int list(const CacheArguments& arguments) {
  const std::vector<CacheFolder> caches = list_caches(store());
  if (arguments.json) {
    for (const CacheFolder& cache : caches) print_line(row_of(cache));
    return 0;
  }
  if (caches.empty()) {
    std::printf("%s has no caches\n", store().c_str());
    print_others();
    return 0;
  }
  using A = Align;
  TextTable table({"key", "state", "rows of", "rows", "tokens", "size", "age", "files"},
                  {A::kLeft, A::kLeft, A::kLeft, A::kRight, A::kRight, A::kRight, A::kRight});
  uint64_t bytes = 0;
  for (const CacheFolder& cache : caches) {
    bytes += cache.bytes;
    const auto age = static_cast<double>(std::time(nullptr) - cache.changed_s);
    table.add({shown_text(cache.dir.filename().string().substr(0, 12)),
               cache_state_name(cache.state), shown_text(cache.row_type), count_text(cache.rows),
               count_text(cache.tokens), format_bytes(static_cast<double>(cache.bytes)),
               format_duration(age), files_text(cache)});
  }
  // Columns are cut only on a terminal.
  const ConsoleTraits traits = console_traits(1);
  std::printf("%s%s in %s\n", table.text(traits.terminal ? traits.width : 0).c_str(),
              format_bytes(static_cast<double>(bytes)).c_str(), store().c_str());
  print_others();
  return 0;
}

// Returns the folder of a key or its first digits. Throws UsageError unless exactly one matches.
fs::path folder_of(const std::string& key) {
  std::vector<fs::path> found;
  for (const CacheFolder& cache : list_caches(store())) {
    if (cache.dir.filename().string().starts_with(key)) found.push_back(cache.dir);
  }
  // An empty key begins every name, and must not mean the only cache.
  if (found.size() == 1 && !key.empty()) return found[0];
  throw UsageError(fmt::format(
      "{} in {} with a key that begins with \"{}\"; `xrun cache ls` lists the keys",
      found.empty() ? "there is no cache" : fmt::format("there are {} caches", found.size()),
      store().string(), key));
}

// Prints the result; returns true if the cache is intact.
bool verify_one(const fs::path& dir, bool json) {
  // Progress is not a result, so it goes to standard error.
  Console console([](std::string_view text) { std::fputs(std::string(text).c_str(), stderr); },
                  console_traits(2));
  Json row = Json::object();
  row.set("key", dir.filename().string());
  std::string problem;
  int64_t rows = 0;
  try {
    const CacheReader reader(dir);
    // Read before the check, so that a damaged cache reports its rows too.
    rows = reader.rows();
    TaskProgress progress(console, "verifying " + dir.filename().string(), "MiB");
    reader.verify([&](uint64_t done, uint64_t total) {
      // MiB, as the unit above says.
      progress.update(static_cast<int64_t>(done >> 20), static_cast<int64_t>(total >> 20));
    });
  } catch (const Error& error) {
    problem = error.what();
  }
  row.set("ok", problem.empty());
  row.set("rows", rows);
  if (!problem.empty()) row.set("problem", problem);
  if (json) {
    print_line(row);
  } else if (problem.empty()) {
    std::printf("%s: %s rows, intact\n", shown_text(dir.string()).c_str(),
                count_text(rows).c_str());
  } else {
    std::fprintf(stderr, "%s\n", shown_text(problem).c_str());
  }
  return problem.empty();
}

void print_check(const SidecarCheck& check, bool json) {
  if (json) {
    Json row = Json::object();
    row.set("key", check.dir.filename().string());
    row.set("name", check.name);
    row.set("ok", check.problem.empty());
    row.set("entries", check.entries);
    if (!check.problem.empty()) row.set("problem", check.problem);
    print_line(row);
  } else if (check.problem.empty()) {
    std::printf("%s: %s values of %s, intact\n", shown_text(check.dir.string()).c_str(),
                count_text(check.entries).c_str(), shown_text(check.name).c_str());
  } else {
    std::fprintf(stderr, "%s\n", shown_text(check.problem).c_str());
  }
}

int verify(const CacheArguments& arguments) {
  std::vector<fs::path> dirs;
  for (const std::string& key : arguments.keys) {
    // A folder may be anywhere; a key names a cache of the store.
    if (!is_folder(key)) {
      dirs.push_back(folder_of(key));
      continue;
    }
    std::error_code code;
    dirs.push_back(fs::weakly_canonical(key, code));
    XRUN_CHECK(!code, "{}: cannot be examined: {}", key, code.message());
  }
  if (dirs.empty()) {
    for (const CacheFolder& cache : list_caches(store())) {
      // Pages of a cache that is being built are not all written.
      const bool building =
          cache.state == CacheState::kUnfinished || cache.state == CacheState::kBuilding;
      if (!building) dirs.push_back(cache.dir);
    }
  }
  bool whole = true;
  // Verifies all of them, though one decides the status.
  for (const fs::path& dir : dirs) whole &= verify_one(dir, arguments.json);
  // Sidecars have no keys, so only a check of everything includes them.
  if (arguments.keys.empty()) {
    for (const SidecarCheck& check : verify_sidecars(sidecar_root())) {
      whole &= check.problem.empty();
      print_check(check, arguments.json);
    }
  }
  return whole ? 0 : 1;
}

// Keys are looked up before anything is removed, so a misspelt one removes nothing.
int remove(const CacheArguments& arguments) {
  std::vector<fs::path> dirs;
  const auto add = [&dirs](const fs::path& dir) {
    // A key and an option may both name it.
    if (std::find(dirs.begin(), dirs.end(), dir) == dirs.end()) dirs.push_back(dir);
  };
  for (const std::string& key : arguments.keys) add(folder_of(key));
  for (const CacheFolder& cache : list_caches(store())) {
    const bool unfinished = cache.state == CacheState::kUnfinished;
    if (arguments.all || (arguments.unfinished && unfinished)) add(cache.dir);
  }
  if (arguments.keys.empty() && !arguments.all && !arguments.unfinished) {
    throw UsageError("xrun cache rm: give keys of caches, or --unfinished or --all");
  }
  const FileDigests digests(cache_root() / kFileDigestsFolder);
  // Digests belong to files outside the store, so only --all forgets them.
  if (arguments.all && digests.forget_all()) {
    std::printf("forgot the digests of data files in %s\n",
                (cache_root() / kFileDigestsFolder).c_str());
  }
  int status = 0;
  for (const fs::path& dir : dirs) {
    // A cache in use stays, but the others are removed.
    try {
      remove_cache(dir);
      std::printf("removed %s\n", shown_text(dir.string()).c_str());
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", shown_text(error.what()).c_str());
      status = 1;
    }
  }
  if (arguments.all) print_others();  // no option removes these
  return status;
}

}  // namespace

int command_cache(int argc, char** argv) {
  CLI::App app(
      "Lists, checks and removes token caches; xrun cache RECIPE.lua builds those of a recipe",
      "xrun cache");
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "RECIPE.lua | ls | verify | rm");
  CacheArguments arguments;
  CLI::App* ls = app.add_subcommand("ls", "lists the caches of the store, oldest first");
  CLI::App* check = app.add_subcommand("verify", "reads every byte and checks it");
  CLI::App* rm =
      app.add_subcommand("rm", "removes token caches; the next run builds what it needs");
  for (CLI::App* command : {ls, check}) {
    command->add_flag("--json", arguments.json, "one JSON object per line");
  }
  check->add_option(
      "DIR", arguments.keys,
      "folders, keys or beginnings of keys; if none is given, all caches and sidecars");
  rm->add_option("KEY", arguments.keys, "keys or beginnings of keys");
  rm->add_flag("--unfinished", arguments.unfinished, "all interrupted builds");
  rm->add_flag(
      "--all", arguments.all,
      "all token caches, and the remembered digests of data files; prints how to remove the rest");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (ls->parsed()) return list(arguments);
  return check->parsed() ? verify(arguments) : remove(arguments);
}

}  // namespace xrun
