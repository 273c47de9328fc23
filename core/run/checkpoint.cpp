// Commit order: files (each synced) -> manifest.json -> folder synced -> rename -> `latest` flipped
// -> older ones renamed aside and removed. A folder named step_* is whole; a kill may leave .tmp_*
// and .old_*, which the next start removes.

#include "core/run/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/run/checkpoint_files.h"
#include "core/train/models/saveable.h"

namespace xrun {

namespace {

constexpr std::string_view kStep = "step_";
constexpr std::string_view kTemporary = ".tmp_";
constexpr std::string_view kRemoved = ".old_";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Removes a folder with its files; the next start removes the rest if that fails.
void remove_folder(const std::filesystem::path& dir) {
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
}

std::vector<int64_t> steps_in(const std::filesystem::path& dir) {
  std::vector<int64_t> found;
  for (const std::filesystem::path& path : list_folder(dir)) {
    const auto step = checkpoint_step(path.filename().string());
    // The manifest is written last, so a folder with one is whole.
    if (step && path_exists(path / kCheckpointManifest)) found.push_back(*step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Returns the step that `latest` names if its folder exists. If the user deleted a damaged
// checkpoint, the previous one is used.
std::optional<int64_t> marked_step(const std::filesystem::path& dir) {
  if (!path_exists(dir / "latest")) return std::nullopt;
  std::string name = read_file(dir / "latest", 4096);
  // An editor may have touched the file.
  while (!name.empty() && name.back() == '\n') name.pop_back();
  const auto step = checkpoint_step(name);
  return step && path_exists(dir / name) ? step : std::nullopt;
}

std::string listed_objects(const std::vector<std::string>& names) {
  return names.empty() ? "no objects" : joined(names, ", ");
}

}  // namespace

std::optional<int64_t> newest_checkpoint(const std::filesystem::path& checkpoints) {
  if (!path_exists(checkpoints) || !is_folder(checkpoints)) return std::nullopt;
  // `latest` first: after a step was undone, a higher number may remain briefly.
  if (const auto marked = marked_step(checkpoints)) return marked;
  const std::vector<int64_t> whole = steps_in(checkpoints);
  return whole.empty() ? std::nullopt : std::optional(whole.back());
}

std::optional<int64_t> checkpoint_step(const std::string& name) {
  // At least seven digits: a folder that a user named step_1 is not ours.
  if (!name.starts_with(kStep) || name.size() < kStep.size() + 7) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, code] = std::from_chars(name.data() + kStep.size(), end, step);
  if (code != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:07}", kStep, step); }

void check_saved_names(const SavedObjects& objects) {
  std::set<std::string> seen;
  for (const auto& [name, object] : objects) {
    const bool plain = std::all_of(name.begin(), name.end(), is_name_character);
    XRUN_CHECK(plain && !name.empty() && name != "run" && name != "manifest",
               "\"{}\" cannot name a saved object: use letters, digits and underscores, and "
               "neither \"run\" nor \"manifest\"",
               name);
    XRUN_CHECK(seen.insert(name).second, "two saved objects are named \"{}\"", name);
  }
}

void Checkpoint::restore(const SavedObjects& objects) const {
  std::vector<std::string> given;
  for (const auto& [name, object] : objects) given.push_back(name);
  std::vector<std::string> a = given, b = names_;
  // Names identify the objects; their order in the recipe may change.
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  XRUN_CHECK(
      a == b,
      "{}: the checkpoint holds {}, the recipe gives its run {}; give it the same objects under "
      "the same names",
      path_.string(), listed_objects(names_), listed_objects(given));
  for (const auto& [name, object] : objects) {
    const SafetensorsFile file(path_ / (name + ".safetensors"));
    const Json state = read_json((path_ / (name + ".json")).string());
    const auto whole = [&](const std::string& tensor) { return file.read(tensor); };
    const auto range = [&](const std::string& tensor, at::IntArrayRef shape, int64_t begin,
                           int64_t size) {
      check_saved_shape(tensor, file.entry(tensor).shape, shape);
      return file.read_range(tensor, begin, size);
    };
    object->restore({whole, range}, state);
  }
}

CheckpointStore::CheckpointStore(std::filesystem::path dir, int64_t keep, Ranks* ranks)
    : dir_(std::move(dir)), keep_(std::max<int64_t>(keep, 1)), ranks_(ranks) {
  on_first_rank(ranks_, "folder of checkpoints", [&] { clean(); });
}

void CheckpointStore::clean() {
  make_dirs(dir_);
  for (const std::filesystem::path& path : list_folder(dir_)) {
    const std::string name = path.filename().string();
    // Left by a kill; the run's lock is held, so nobody is writing them.
    if (name.starts_with(kTemporary) || name.starts_with(kRemoved) ||
        name.starts_with("latest.tmp")) {
      remove_folder(path);
    }
  }
}

std::filesystem::path CheckpointStore::save(int64_t step, const Json& run,
                                            const SavedObjects& objects, bool alone) {
  Ranks* const ranks = alone ? nullptr : ranks_;
  const std::string name = checkpoint_name(step);
  const auto target = dir_ / name;
  // Nothing changed since: a loop that ends at a saved step saves once.
  if (step == last_step_) return target;
  check_saved_names(objects);
  const auto temporary = dir_ / (std::string(kTemporary) + name);
  on_first_rank(ranks, "new checkpoint", [&] {
    remove_folder(temporary);
    make_dirs(temporary);
  });
  try {
    CheckpointWriter writing(temporary, ranks);
    for (const auto& [object_name, object] : objects) writing.add(object_name, *object);
    writing.add_json(kCheckpointRun, run);
    writing.finish(step);
    on_first_rank(ranks, "checkpoint in place", [&] {
      // The run went back before this step; `latest` no longer names it.
      if (path_exists(target)) set_aside(name);
      rename_durable(temporary, target);
    });
  } catch (...) {
    if (is_first_rank(ranks)) remove_folder(temporary);
    throw;
  }
  on_first_rank(ranks, "latest checkpoint", [&] {
    // Flipped only now: until the rename above is durable, `latest` must name the previous one.
    write_file_atomic(dir_ / "latest", name + "\n");
  });
  last_step_ = step;
  // Last: a failure before this line leaves one checkpoint too many, never one too few.
  if (is_first_rank(ranks)) remove_old(step);
  return target;
}

void CheckpointStore::set_aside(const std::string& name) {
  const auto aside = dir_ / (std::string(kRemoved) + name);
  remove_folder(aside);
  std::error_code ignored;
  // Renamed first: a kill during the removal never leaves half of a step_* folder.
  std::filesystem::rename(dir_ / name, aside, ignored);
  remove_folder(aside);
}

// Later steps were cut off by a resume, so they are removed too.
void CheckpointStore::remove_old(int64_t newest) {
  auto all = steps();
  const auto last = std::find(all.begin(), all.end(), newest);
  // At most keep_, counted back from the one just written.
  const auto kept_from = last - std::min<int64_t>(keep_ - 1, last - all.begin());
  for (auto it = all.begin(); it != all.end(); ++it) {
    if (it < kept_from || it > last) set_aside(checkpoint_name(*it));
  }
}

std::vector<int64_t> CheckpointStore::steps() const { return steps_in(dir_); }

std::optional<Checkpoint> CheckpointStore::load_latest() {
  const std::string newest = from_first_rank(ranks_, "the newest checkpoint", [&] {
    const std::optional<int64_t> step = newest_checkpoint(dir_);
    return step ? std::to_string(*step) : std::string();
  });
  if (newest.empty()) return std::nullopt;
  const int64_t step = std::stoll(newest);
  const Checkpoint checkpoint = load(step);
  last_step_ = step;
  return checkpoint;
}

Checkpoint CheckpointStore::load(int64_t step) const {
  Checkpoint checkpoint;
  checkpoint.path_ = dir_ / checkpoint_name(step);
  agree(ranks_, "the checkpoint's folder", [&] {
    XRUN_CHECK(is_first_rank(ranks_) || path_exists(checkpoint.path_),
               "{}: this process does not see the checkpoint; the folder of a run must be on a "
               "file system that all ranks share",
               checkpoint.path_.string());
  });
  const CheckpointManifest manifest = read_checkpoint_manifest(checkpoint.path_, step, ranks_);
  if (!manifest.damage.empty()) {
    // The older checkpoint is only named: falling back to it would silently lose steps.
    const std::vector<int64_t> whole = steps();
    const auto it = std::lower_bound(whole.begin(), whole.end(), step);
    const std::string fix = it == whole.begin() ? "start from the beginning"
                                                : fmt::format("continue from step {}", *(it - 1));
    throw Error(fmt::format("{}; the checkpoint is damaged: remove {} to {}", manifest.damage,
                            checkpoint.path_.string(), fix));
  }
  checkpoint.step_ = step;
  checkpoint.run_ = read_json((checkpoint.path_ / kCheckpointRun).string());
  for (const auto& name : manifest.value.at("objects").as_array()) {
    checkpoint.names_.push_back(name.as_string());
  }
  return checkpoint;
}

}  // namespace xrun
