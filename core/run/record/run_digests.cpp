// {"format": 1, "files": {"config.json": {"bytes", "sha256"}, ...}} in the order of the names.

#include "core/run/record/run_digests.h"

#include <algorithm>
#include <cstdint>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_lock.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/base/sha256.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kDigestsFormat = 1;

// True for the files that stay as they are once the run has ended.
bool is_settled(const std::string& name) {
  for (const char* open : {"lock", "log.txt", "profile.json", kRunDigests}) {
    if (name == open) return false;
  }
  if (name.starts_with("tb/")) return false;
  return !name.starts_with("checkpoints/") || name.ends_with("/manifest.json");
}

// The names of the settled files, sorted.
std::vector<std::string> settled_files(const fs::path& run) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::recursive_directory_iterator at(run, code), end; !code && at != end;
       at.increment(code)) {
    const std::string name = at->path().lexically_relative(run).generic_string();
    std::error_code none;  // of a loop of links
    if (at->is_regular_file(none) && is_settled(name)) names.push_back(name);
  }
  XRUN_CHECK(!code, "{}: cannot be listed: {}", run.string(), code.message());
  std::sort(names.begin(), names.end());
  return names;
}

Json digest_of_file(const fs::path& file) {
  const std::string digest = sha256_file(file, [](uint64_t) { check_interrupt(); });
  return Json(
      Json::Object{{"bytes", static_cast<int64_t>(size_of_file(file))}, {"sha256", digest}});
}

}  // namespace

void write_run_digests(const fs::path& run) {
  Json files = Json::object();
  for (const std::string& name : settled_files(run)) files.set(name, digest_of_file(run / name));
  const Json out(Json::Object{{"format", kDigestsFormat}, {"files", std::move(files)}});
  write_file_atomic(run / kRunDigests, dump_json(out, kIndentedJson) + "\n");
}

std::vector<std::string> changed_run_files(const fs::path& run) {
  const fs::path path = run / kRunDigests;
  if (!path_exists(path)) {
    throw UsageError(fmt::format("{}: has no {}, which a run writes at its end; {}", run.string(),
                                 kRunDigests,
                                 is_locked(run / "lock") ? "a process still runs in this folder"
                                                         : "resume the run to its end"));
  }
  const Json digests = read_json(path.string());
  const Json& files = digests.at("files");
  std::vector<std::string> changed, known;
  for (const auto& [name, locked] : files.as_object()) {
    known.push_back(name);
    const fs::path file = run / name;
    // A damaged digests.json may name anything; only what is below the run is read.
    const bool below = is_settled(name) && fs::path(name).lexically_normal() == fs::path(name) &&
                       !name.starts_with("..") && !name.starts_with("/");
    XRUN_CHECK(below, "{}: is damaged: it names \"{}\"", path.string(), name);
    if (!is_file(file)) {
      changed.push_back(name + " is missing");
    } else if (digest_of_file(file) != locked) {
      changed.push_back(
          fmt::format("{} has changed: its SHA-256 was {}", name, text_member(locked, "sha256")));
    }
  }
  for (const std::string& name : settled_files(run)) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      changed.push_back(name + " is new");
  }
  return changed;
}

}  // namespace xrun
