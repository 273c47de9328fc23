// manifest.json: {"format":1,"step":3,"objects":["policy"],"files":{"policy.safetensors":
// {"bytes":...,"xxh3":...},"policy.json":...,"run.json":...}}
// A file that several ranks wrote has, in place of "xxh3", "parts": one
// {"xxh3":...,"spans":[[begin, end],...]} for each rank, the digest of its bytes in the order of
// the file. Spans tile the file.

#include "core/run/checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_update.h"
#include "core/base/hash.h"
#include "core/base/mapped_file.h"
#include "core/dist/agreement.h"
#include "core/dist/ranks.h"
#include "core/train/models/saveable.h"

namespace xrun {

namespace {

constexpr int64_t kFormat = 1;

void write_synced(const std::filesystem::path& path, std::string_view bytes) {
  FileWriter writer(path);
  writer.write(bytes);
  writer.sync();
  writer.close();
}

// Returns the size of a file that was written. Throws FileError.
int64_t written_bytes(const std::filesystem::path& path) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(path, code);
  if (!code) return static_cast<int64_t>(bytes);
  errno = code.value();
  throw_file_error(path, "be examined");
}

using ByteSpan = std::pair<uint64_t, uint64_t>;

// Returns the spans of a rank's part. Throws Error if they are not ascending within the file.
std::vector<ByteSpan> spans_of(const Json& part, uint64_t bytes) {
  std::vector<ByteSpan> spans;
  uint64_t last = 0;
  for (const Json& span : part.at("spans").as_array()) {
    XRUN_CHECK(span.size() == 2, "a span has {} numbers, wanted 2", span.size());
    const auto begin = static_cast<uint64_t>(span.as_array()[0].as_int());
    const auto end = static_cast<uint64_t>(span.as_array()[1].as_int());
    XRUN_CHECK(last <= begin && begin <= end && end <= bytes,
               "the span [{}, {}] is not within the bytes {} to {} of its file", begin, end, last,
               bytes);
    spans.emplace_back(begin, end);
    last = end;
  }
  return spans;
}

// Throws Error unless the spans of all parts cover each byte of a file once.
void check_tiling(const Json& parts, uint64_t bytes) {
  std::vector<ByteSpan> all;
  for (const Json& part : parts.as_array()) {
    const std::vector<ByteSpan> spans = spans_of(part, bytes);
    all.insert(all.end(), spans.begin(), spans.end());
  }
  std::sort(all.begin(), all.end());
  uint64_t at = 0;
  for (const auto& [begin, end] : all) {
    XRUN_CHECK(begin == at, "a span begins at byte {}, the one before it ends at {}", begin, at);
    at = end;
  }
  XRUN_CHECK(at == bytes, "the spans of the ranks cover {} bytes of {}", at, bytes);
}

// Verifies the checksums of the parts k, k + step, ... Returns what is wrong with the first damaged
// one, or "".
std::string damaged_part(const std::filesystem::path& path, const Json& parts, size_t k,
                         size_t step) {
  const MappedFile file(path);
  const std::string_view bytes = file.bytes();
  for (size_t i = k; i < parts.size(); i += step) {
    const Json& part = parts.as_array()[i];
    Hasher hasher;
    for (const auto& [begin, end] : spans_of(part, bytes.size())) {
      hasher.bytes(bytes.substr(begin, end - begin));
    }
    const std::string hash = hasher.hex();
    const std::string& wanted = part.at("xxh3").as_string();
    if (hash == wanted) continue;
    return fmt::format("{}: the bytes that rank {} of {} wrote have checksum {}, wanted {}",
                       path.string(), i, parts.size(), hash, wanted);
  }
  return "";
}

// Returns what is wrong with file `number` of the manifest, or "". Of several readers, each
// computes a share of the checksums.
std::string damage_of(const std::filesystem::path& path, const Json& entry, size_t number,
                      size_t reader, size_t readers) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(path, code);
  if (code) return fmt::format("{}: is missing", path.string());
  // The size first: it costs nothing, while the checksum reads the whole file.
  const int64_t wanted = entry.at("bytes").as_int();
  if (static_cast<int64_t>(bytes) != wanted) {
    return fmt::format("{}: has {} bytes, wanted {}", path.string(), bytes, wanted);
  }
  if (const Json* parts = entry.find("parts")) {
    check_tiling(*parts, bytes);
    return damaged_part(path, *parts, reader, readers);
  }
  if (number % readers != reader) return "";
  const std::string hash = hash_file(path);
  const std::string& wanted_hash = entry.at("xxh3").as_string();
  if (hash == wanted_hash) return "";
  return fmt::format("{}: has checksum {}, wanted {}", path.string(), hash, wanted_hash);
}

// Throws Error unless the manifest is of this format and step and lists every object's files.
void check_manifest(const Json& manifest, int64_t step) {
  const int64_t format = manifest.at("format").as_int();
  XRUN_CHECK(format == kFormat, "has format {}, wanted {}", format, kFormat);
  const int64_t listed = manifest.at("step").as_int();
  // A folder that was renamed by hand would restore another position of the data.
  XRUN_CHECK(listed == step, "is of step {}, wanted {}", listed, step);
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

// JSON has no NaN and no infinity, but run.state may hold them: {"$number":"nan"}. A user's own
// table with only this key is {"$number":[VALUE]}.
constexpr const char* kNumber = "$number";

Json encode_number(double value) {
  const char* name = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return Json(Json::Object{{kNumber, name}});
}

// Returns the value of an object whose only key is kNumber; null for any other value.
const Json* only_number(const Json& value) {
  return value.is_object() && value.size() == 1 ? value.find(kNumber) : nullptr;
}

// Returns the NaN or infinity that encode_number wrote, 0 for any other value.
double special_number(const Json& value) {
  const Json* name = only_number(value);
  if (name == nullptr || !name->is_string()) return 0;
  if (name->as_string() == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (name->as_string() == "inf") return std::numeric_limits<double>::infinity();
  if (name->as_string() == "-inf") return -std::numeric_limits<double>::infinity();
  return 0;
}

// Returns a copy of `value` in which each value that `leaf` replaces is replaced, at every depth.
template <typename Leaf>
Json rebuild(const Json& value, const Leaf& leaf) {
  // `leaf` returns null for a value that it does not replace.
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
  names_.push_back(name);
  if (ranks_ != nullptr) {
    add_ranges(file, object);
    return add_json(name + ".json", object.state());
  }
  write_safetensors(dir_ / file, object.tensors());  // syncs the file
  // Hashed while the next object is written, from the page cache: the checksum is that of the bytes
  // in the file, not in memory.
  const auto hash = [path = dir_ / file] { return hash_file(path); };
  hashes_.emplace_back(file, std::async(std::launch::async, hash));
  add_json(name + ".json", object.state());
}

namespace {

// Returns this rank's ranges of an object, and its share of each tensor that every rank has whole.
std::vector<TensorRange> ranges_to_write(const Saveable& object, const Ranks& ranks) {
  std::vector<TensorRange> ranges = object.ranges();
  for (const NamedTensor& whole : object.tensors()) {
    const int64_t elements = whole.tensor.numel();
    const int64_t begin = elements * ranks.rank() / ranks.size();
    const int64_t end = elements * (ranks.rank() + 1) / ranks.size();
    // reshape gives a view unless the tensor has strides.
    ranges.push_back({whole.name, whole.tensor.sizes().vec(), begin,
                      whole.tensor.detach().reshape({-1}).narrow(0, begin, end - begin)});
  }
  return ranges;
}

Json part_json(const std::vector<ByteSpan>& spans, const std::string& hash) {
  Json list = Json::array();
  for (const auto& [begin, end] : spans) {
    list.push_back(Json(Json::Array{static_cast<int64_t>(begin), static_cast<int64_t>(end)}));
  }
  return Json(Json::Object{{"xxh3", hash}, {"spans", std::move(list)}});
}

}  // namespace

void CheckpointWriter::add_ranges(const std::string& file, const Saveable& object) {
  const std::filesystem::path path = dir_ / file;
  std::vector<TensorRange> ranges;
  SafetensorsLayout layout;
  // Made before any rank opens it, so that none truncates what another has written.
  agree(ranks_, "layout of a checkpoint's file", [&] {
    ranges = ranges_to_write(object, *ranks_);
    std::vector<SafetensorsEntry> entries;
    for (const TensorRange& range : ranges) {
      entries.push_back({range.name, range.held.scalar_type(), range.shape});
    }
    layout = safetensors_layout(path, entries);
    if (!is_first_rank(ranks_)) return;
    write_synced(path, "");
    set_file_size(path, layout.bytes);
  });
  const std::vector<std::string> parts = gather_results(ranks_, "ranges of a checkpoint", [&] {
    std::vector<ByteSpan> spans;
    Hasher hasher;
    FileUpdate writer(path);
    const auto write = [&](uint64_t begin, std::string_view bytes) {
      if (bytes.empty()) return;
      writer.write(begin, bytes);
      hasher.bytes(bytes);
      spans.emplace_back(begin, begin + bytes.size());
    };
    if (is_first_rank(ranks_)) write(0, layout.head);
    for (const size_t i : layout.order) {
      // Copied to the CPU one range at a time, so that memory holds one.
      const at::Tensor data = ranges[i].held.cpu().contiguous();
      const uint64_t begin = layout.begin[i] + static_cast<uint64_t>(ranges[i].begin) *
                                                   static_cast<uint64_t>(data.element_size());
      write(begin, {static_cast<const char*>(data.const_data_ptr()), data.nbytes()});
    }
    writer.sync();
    writer.close();
    return dump_json(part_json(spans, hasher.hex()));
  });
  Json list = Json::array();
  for (const std::string& part : parts) list.push_back(parse_json(part, "a rank's part"));
  parts_.emplace_back(file, std::move(list));
}

void CheckpointWriter::add_json(const std::string& file, const Json& value) {
  const std::string bytes = dump_json(value) + "\n";
  on_first_rank(ranks_, "file of a checkpoint", [&] { write_synced(dir_ / file, bytes); });
  std::promise<std::string> known;
  known.set_value(hash_hex(bytes));
  hashes_.emplace_back(file, known.get_future());
}

void CheckpointWriter::finish(int64_t step) {
  on_first_rank(ranks_, "manifest of a checkpoint", [&] { write_manifest(step); });
}

void CheckpointWriter::write_manifest(int64_t step) {
  Json files = Json::object();
  for (auto& [name, parts] : parts_) {
    Json file = Json::object();
    file.set("bytes", written_bytes(dir_ / name));
    file.set("parts", std::move(parts));
    files.set(name, std::move(file));
  }
  for (auto& [name, hash] : hashes_) {
    Json file = Json::object();
    file.set("bytes", written_bytes(dir_ / name));
    // Waits for the hashing thread, and throws what it threw.
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

namespace {

CheckpointManifest check_checkpoint(const std::filesystem::path& dir, int64_t step, size_t reader,
                                    size_t readers) {
  const std::string path = (dir / kCheckpointManifest).string();
  CheckpointManifest manifest;
  try {
    manifest.value = read_json(path);
    check_manifest(manifest.value, step);
    size_t number = 0;
    for (const auto& [name, entry] : manifest.value.at("files").as_object()) {
      // A damaged manifest must not name a file outside its folder.
      XRUN_CHECK(name.find('/') == std::string::npos,
                 "{}: lists the file {}, wanted the name of a file in its folder", path, name);
      manifest.damage = damage_of(dir / name, entry, number++, reader, readers);
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

}  // namespace

CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& dir, int64_t step,
                                            Ranks* ranks) {
  if (ranks == nullptr) return check_checkpoint(dir, step, 0, 1);
  CheckpointManifest manifest;
  const std::vector<std::string> damages = gather_results(ranks, "checksums of a checkpoint", [&] {
    manifest = check_checkpoint(dir, step, static_cast<size_t>(ranks->rank()),
                                static_cast<size_t>(ranks->size()));
    return manifest.damage;
  });
  for (const std::string& damage : damages) {
    if (!damage.empty()) {
      manifest.damage = damage;  // the same on every rank
      break;
    }
  }
  return manifest;
}

Json encode_state(const Json& state) {
  return rebuild(state, [](const Json& value) {
    if (const Json* own = only_number(value)) {
      return Json(Json::Object{{kNumber, Json(Json::Array{encode_state(*own)})}});
    }
    const bool special = value.is_number() && !std::isfinite(value.as_double());
    return special ? encode_number(value.as_double()) : Json();
  });
}

Json decode_state(const Json& encoded) {
  return rebuild(encoded, [](const Json& value) {
    const Json* own = only_number(value);
    if (own != nullptr && own->is_array() && own->size() == 1) {
      return Json(Json::Object{{kNumber, decode_state(own->as_array()[0])}});
    }
    const double special = special_number(value);
    return special != 0 ? Json(special) : Json();
  });
}

}  // namespace xrun
