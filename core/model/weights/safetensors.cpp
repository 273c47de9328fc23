// u64 LE header length, JSON header {name: {dtype, shape, data_offsets}}, then the data. Nothing of
// a file is trusted: lengths are compared with the file's size before anything is allocated or
// read.

#include "core/model/weights/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference reader
constexpr uint64_t kMaxTensorDimensions = 32;

struct SafetensorsDtype {
  const char* name;
  at::ScalarType dtype;
};
constexpr SafetensorsDtype kDtypes[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf},  {"BF16", at::kBFloat16},
    {"I64", at::kLong},   {"I32", at::kInt},   {"I16", at::kShort}, {"I8", at::kChar},
    {"U8", at::kByte},    {"BOOL", at::kBool},
};

// Parses one entry of the header; its errors name the tensor.
class SafetensorsEntryParser {
 public:
  SafetensorsEntryParser(const std::filesystem::path& path, const Json::Member& member)
      : path_(path), name_(member.first), json_(member.second) {}

  SafetensorsEntry parse(uint64_t data_bytes) const {
    SafetensorsEntry entry;
    entry.name = name_;
    entry.dtype = dtype();
    const uint64_t bytes = shape(entry);
    const Json& offsets = field("data_offsets");
    require(offsets.is_array() && offsets.size() == 2, "data_offsets is not [begin, end]");
    // Offsets count from the end of the header.
    entry.begin = number(offsets.as_array()[0], "data_offsets");
    entry.end = number(offsets.as_array()[1], "data_offsets");
    // Damaged offsets must not reach outside the file.
    require(entry.begin <= entry.end && entry.end <= data_bytes,
            fmt::format("its data_offsets [{}, {}] are not within the {} data bytes that the file "
                        "has; the file is truncated or damaged, fetch it again",
                        entry.begin, entry.end, data_bytes));
    require(entry.end - entry.begin == bytes,
            fmt::format("its data_offsets span {} bytes, but its dtype and shape need {}",
                        entry.end - entry.begin, bytes));
    return entry;
  }

 private:
  void require(bool holds, const std::string& message) const {
    XRUN_CHECK(holds, "{}: tensor '{}': {}", path_.string(), name_, message);
  }

  const Json& field(const char* key) const {
    const Json* value = json_.find(key);
    require(value != nullptr, fmt::format("the header has no '{}'", key));
    return *value;
  }

  uint64_t number(const Json& value, const char* key) const {
    require(value.is_int() && value.as_int() >= 0,
            fmt::format("'{}' holds a value that is not a non-negative integer", key));
    return static_cast<uint64_t>(value.as_int());
  }

  at::ScalarType dtype() const {
    const Json& value = field("dtype");
    require(value.is_string(), "'dtype' is not a string");
    std::string known;
    for (const SafetensorsDtype& d : kDtypes) {
      if (value.as_string() == d.name) return d.dtype;
      add_item(known, d.name);
    }
    throw Error(
        fmt::format("{}: tensor '{}' has the dtype {}, which is not supported; supported: {}",
                    path_.string(), name_, value.as_string(), known));
  }

  // Fills the shape and returns the bytes it needs.
  uint64_t shape(SafetensorsEntry& entry) const {
    const Json& value = field("shape");
    require(value.is_array() && value.size() <= kMaxTensorDimensions,
            "'shape' is not a list of sizes");
    // Bytes so far; each size multiplies them.
    uint64_t bytes = c10::elementSize(entry.dtype);
    bool empty = false;
    for (const Json& size : value.as_array()) {
      const uint64_t n = number(size, "shape");
      entry.shape.push_back(static_cast<int64_t>(n));
      if (n == 0) empty = true;
      // A size of 0 makes the tensor empty whatever the product of the others is.
      require(n == 0 || !__builtin_mul_overflow(bytes, n, &bytes), "its shape overflows");
    }
    require(empty || bytes <= INT64_MAX, "its shape overflows");
    return empty ? 0 : bytes;
  }

  const std::filesystem::path& path_;
  const std::string& name_;
  const Json& json_;
};

// Ranges must tile the data: no gap, no overlap, no rest. A gap could hide bytes, an overlap would
// tie two weights.
void check_tiling(const std::filesystem::path& path, const std::vector<SafetensorsEntry>& entries,
                  uint64_t data_bytes) {
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    XRUN_CHECK(entry.begin == at,
               "{}: tensor '{}' begins at byte {}, but the one before it ends at {}", path.string(),
               entry.name, entry.begin, at);
    at = entry.end;
  }
  XRUN_CHECK(at == data_bytes, "{}: the header accounts for {} data bytes, the file has {}",
             path.string(), at, data_bytes);
}

}  // namespace

// Everything is checked before the first tensor is read.
SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : path_(std::move(path)), file_(path_) {
  const std::string_view bytes = file_.bytes();
  refuse_lfs_pointer(bytes, path_.string());
  XRUN_CHECK(bytes.size() >= 8,
             "{}: has {} bytes, too few for a safetensors file; it is truncated, fetch it again",
             path_.string(), bytes.size());
  // Little endian, as every machine that we build for.
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  XRUN_CHECK(header_bytes <= kMaxHeaderBytes,
             "{}: claims a header of {} bytes, the limit is {}; is it a safetensors file?",
             path_.string(), header_bytes, kMaxHeaderBytes);
  XRUN_CHECK(header_bytes <= bytes.size() - 8,
             "{}: claims a header of {} bytes, but has {} bytes; the file is truncated, fetch it "
             "again",
             path_.string(), header_bytes, bytes.size());
  data_begin_ = 8 + header_bytes;
  const Json header = parse_json(bytes.substr(8, header_bytes), path_.string() + " (header)");
  XRUN_CHECK(header.is_object(), "{}: the header is not a JSON object", path_.string());
  const uint64_t data_bytes = bytes.size() - data_begin_;
  for (const Json::Member& member : header.as_object()) {
    if (member.first != "__metadata__") {
      entries_.push_back(SafetensorsEntryParser(path_, member).parse(data_bytes));
      continue;
    }
    XRUN_CHECK(member.second.is_object(), "{}: __metadata__ is not an object", path_.string());
    for (const Json::Member& item : member.second.as_object()) {
      XRUN_CHECK(item.second.is_string(), "{}: __metadata__ '{}' is not a string", path_.string(),
                 item.first);
      metadata_[item.first] = item.second.as_string();
    }
  }
  // By the end too: an empty tensor begins where the next one does, and comes first.
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_tiling(path_, entries_, data_bytes);
  for (size_t i = 0; i < entries_.size(); ++i) by_name_[entries_[i].name] = i;
}

bool SafetensorsFile::has(std::string_view name) const {
  return by_name_.find(name) != by_name_.end();
}

const SafetensorsEntry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return entries_[found->second];
  std::vector<std::string> known;
  for (const SafetensorsEntry& e : entries_) known.push_back(e.name);
  const std::string near = nearest_name(name, known);
  throw Error(fmt::format("{}: has no tensor '{}'{}", path_.string(), name,
                          near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

at::Tensor SafetensorsFile::read(std::string_view name) const {
  const SafetensorsEntry& e = entry(name);
  at::Tensor tensor = at::empty(e.shape, at::TensorOptions().dtype(e.dtype));
  const char* data = file_.bytes().data() + data_begin_ + e.begin;
  // Copied: GEMMs may depend on alignment, and a file that shrinks later must not fault.
  // memcpy of 0 bytes may still not take a null pointer.
  if (e.end > e.begin) std::memcpy(tensor.mutable_data_ptr(), data, e.end - e.begin);
  return tensor;
}

at::Tensor SafetensorsFile::read_range(std::string_view name, int64_t begin, int64_t size) const {
  const SafetensorsEntry& e = entry(name);
  const auto element = static_cast<uint64_t>(c10::elementSize(e.dtype));
  const auto elements = static_cast<int64_t>((e.end - e.begin) / element);
  // Written so that begin + size cannot overflow.
  XRUN_CHECK(begin >= 0 && size >= 0 && begin <= elements - size,
             "{}: tensor '{}' has {} elements, wanted those from {} to {}", path_.string(), name,
             elements, begin, begin + size);
  at::Tensor tensor = at::empty({size}, at::TensorOptions().dtype(e.dtype));
  const char* data = file_.bytes().data() + data_begin_ + e.begin;
  if (size > 0) {
    std::memcpy(tensor.mutable_data_ptr(), data + static_cast<uint64_t>(begin) * element,
                static_cast<uint64_t>(size) * element);
  }
  return tensor;
}

SafetensorsFolder::SafetensorsFolder(const std::filesystem::path& dir) {
  const std::filesystem::path single = dir / "model.safetensors";
  const std::filesystem::path index = dir / "model.safetensors.index.json";
  // With both the single file counts, as in transformers.
  if (path_exists(single)) {
    files_.emplace_back(single);
    for (const SafetensorsEntry& e : files_[0].entries()) file_of_[e.name] = 0;
    return;
  }
  XRUN_CHECK(
      path_exists(index), "{}: has neither model.safetensors nor model.safetensors.index.json{}",
      dir.string(),
      path_exists(dir / "pytorch_model.bin") || path_exists(dir / "pytorch_model.bin.index.json")
          ? "; pytorch_model.bin is a pickle, which could run code and is never read: save "
            "the model again with transformers' save_pretrained"
          : "; copy the weights there, or name a folder that has them");
  const Json json = read_json(index.string());
  const Json* map = json.find("weight_map");
  XRUN_CHECK(map != nullptr && map->is_object(), "{}: has no weight_map object", index.string());
  std::map<std::string, size_t> shards;
  for (const auto& [name, value] : map->as_object()) {
    XRUN_CHECK(value.is_string(), "{}: weight_map '{}' is not a file name", index.string(), name);
    const std::string& shard = value.as_string();
    // An untrusted name must not leave the folder.
    XRUN_CHECK(!shard.empty() && shard.find('/') == std::string::npos && shard != ".." &&
                   shard != "." && shard.find('\0') == std::string::npos,
               "{}: weight_map '{}' names '{}', which is not a plain file name", index.string(),
               name, shard);
    // Each file is mapped once.
    const auto [at, added] = shards.try_emplace(shard, files_.size());
    if (added) files_.emplace_back(dir / shard);
    XRUN_CHECK(files_[at->second].has(name), "{}: weight_map places '{}' in {}, which lacks it",
               index.string(), name, shard);
    file_of_[name] = at->second;
  }
  // A tensor that the index does not list would be ignored silently.
  for (const SafetensorsFile& file : files_) {
    for (const SafetensorsEntry& e : file.entries()) {
      XRUN_CHECK(file_of_.find(e.name) != file_of_.end(), "{}: holds '{}', which {} does not list",
                 file.path().string(), e.name, index.string());
    }
  }
}

// Sorted, since file_of_ is a map.
std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

const SafetensorsFile& SafetensorsFolder::file(std::string_view name) const {
  const auto found = file_of_.find(name);
  XRUN_CHECK(found != file_of_.end(), "the model's files have no tensor '{}'", name);
  return files_[found->second];
}

std::string safetensors_dtype_name(at::ScalarType dtype) {
  for (const SafetensorsDtype& d : kDtypes) {
    if (d.dtype == dtype) return d.name;
  }
  throw Error(fmt::format("safetensors has no name for the type {}", c10::toString(dtype)));
}

}  // namespace xrun
