// manifest.json: {"format":1,"step":3,"objects":["policy"],"files":{"policy.safetensors":
// {"bytes":...,"xxh3":...},"policy.json":...,"run.json":...}}
#include "core/run/checkpoint_files.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/train/saveable.h"

namespace xrun {

namespace {

constexpr int64_t kFormat = 1;

void write_synced(const std::filesystem::path& path, std::string_view bytes) {
  FileWriter writer(path);
  writer.write(bytes);
  writer.sync();
  writer.close();
}

// Returns what is wrong with a file of the manifest, or "".
std::string damage_of(const std::filesystem::path& path, const Json& entry) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(path, code);
  if (code) return fmt::format("{}: is missing", path.string());
  // The size first: it costs nothing, while the checksum reads the whole file.
  const int64_t wanted = entry.at("bytes").as_int();
  if (static_cast<int64_t>(bytes) != wanted) {
    return fmt::format("{}: has {} bytes, wanted {}", path.string(), bytes, wanted);
  }
  const std::string hash = hash_file(path);
  const std::string& wanted_hash = entry.at("xxh3").as_string();
  if (hash == wanted_hash) return "";
  return fmt::format("{}: has checksum {}, wanted {}", path.string(), hash, wanted_hash);
}

// Throws Error unless the manifest is of this format and step and lists every object's files.
void check_manifest(const Json& manifest, int64_t step) {
  const int64_t format = manifest.at("format").as_int();
  XRUN_CHECK(format == kFormat, "has format {}, wanted {}", format, kFormat);
  const int64_t own = manifest.at("step").as_int();
  // A folder that was renamed by hand would restore another position of the data.
  XRUN_CHECK(own == step, "is of step {}, wanted {}", own, step);
  const Json& files = manifest.at("files");
  std::vector<std::string> wanted = {kCheckpointRun};
  for (const Json& name : manifest.at("objects").as_array()) {
    wanted.push_back(name.as_string() + ".safetensors");
    wanted.push_back(name.as_string() + ".json");
  }
  for (const std::string& file : wanted) {
    XRUN_CHECK(files.find(file) != nullptr, "does not list {}", file);
  }
}

// JSON has no NaN and no infinity, but run.state may hold them: {"$number":"nan"}.
constexpr const char* kNumber = "$number";

Json encode_number(double value) {
  const char* name = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return Json(Json::Object{{kNumber, name}});
}

// Returns the NaN or infinity that encode_number wrote, 0 for any other value.
double special_number(const Json& value) {
  // A user's state with only this key and another value passes unchanged.
  const Json* name = value.size() == 1 ? value.find(kNumber) : nullptr;
  if (name == nullptr || !name->is_string()) return 0;
  if (name->as_string() == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (name->as_string() == "inf") return std::numeric_limits<double>::infinity();
  if (name->as_string() == "-inf") return -std::numeric_limits<double>::infinity();
  return 0;
}

template <typename Leaf>
Json rebuild(const Json& value, const Leaf& leaf) {
  // null means "not a leaf of ours"; a null of the state falls through to itself.
  if (const Json replaced = leaf(value); !replaced.is_null()) return replaced;
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& element : value.as_array()) out.push_back(rebuild(element, leaf));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, member] : value.as_object()) out.set(key, rebuild(member, leaf));
  return out;
}

}  // namespace

void CheckpointWriter::add(const std::string& name, const Saveable& object) {
  const std::string file = name + ".safetensors";
  // Synced by the writer.
  write_safetensors(dir_ / file, object.tensors());
  // This file is hashed while the next object is written.
  const auto hash = [path = dir_ / file] { return hash_file(path); };
  // Read back from the page cache: the checksum is of the bytes that were written, not of the
  // memory.
  hashes_.emplace_back(file, std::async(std::launch::async, hash));
  add_json(name + ".json", object.state());
  names_.push_back(name);
}

void CheckpointWriter::add_json(const std::string& file, const Json& value) {
  const std::string bytes = dump_json(value) + "\n";
  write_synced(dir_ / file, bytes);
  std::promise<std::string> known;
  known.set_value(hash_hex(bytes));
  hashes_.emplace_back(file, known.get_future());
}

void CheckpointWriter::finish(int64_t step) {
  Json files = Json::object();
  for (auto& [name, hash] : hashes_) {
    Json file = Json::object();
    file.set("bytes", static_cast<int64_t>(std::filesystem::file_size(dir_ / name)));
    // Waits for the threads, and throws what they threw.
    file.set("xxh3", hash.get());
    files.set(name, std::move(file));
  }
  Json manifest = Json::object();
  manifest.set("format", kFormat);
  manifest.set("step", step);
  Json names = Json::array();
  for (const auto& name : names_) names.push_back(name);
  manifest.set("objects", std::move(names));
  manifest.set("files", std::move(files));
  // Everything that it lists is synced by now.
  write_synced(dir_ / kCheckpointManifest, dump_json(manifest) + "\n");
  sync_dir(dir_);
}

CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& dir, int64_t step) {
  const std::string path = (dir / kCheckpointManifest).string();
  CheckpointManifest manifest;
  try {
    manifest.value = read_json(path);
    check_manifest(manifest.value, step);
    for (const auto& [name, entry] : manifest.value.at("files").as_object()) {
      // A damaged manifest must not name a file outside its folder.
      XRUN_CHECK(name.find('/') == std::string::npos, "{}: names the file {}", path, name);
      manifest.damage = damage_of(dir / name, entry);
      if (!manifest.damage.empty()) break;
    }
  } catch (const Error& error) {
    manifest.damage = error.what();
    if (manifest.damage.find(kCheckpointManifest) == std::string::npos) {
      manifest.damage = fmt::format("{}: {}", path, error.what());
    }
  }
  return manifest;
}

Json encode_state(const Json& state) {
  return rebuild(state, [](const Json& value) {
    const bool special = value.is_number() && !std::isfinite(value.as_double());
    return special ? encode_number(value.as_double()) : Json();
  });
}

Json decode_state(const Json& encoded) {
  return rebuild(encoded, [](const Json& value) {
    const double special = value.is_object() ? special_number(value) : 0;
    return special != 0 ? Json(special) : Json();
  });
}

}  // namespace xrun
