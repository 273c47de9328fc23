// Layout, little-endian throughout:
//   "GGUF", version u32, tensors u64, pairs u64,
//   pairs    x { key string, type u32, value }          string = length u64, bytes
//   tensors  x { name string, n u32, n x dimension u64, format u32, offset u64 }
//   padding to general.alignment (32), then the tensors' bytes; offsets count from there.
// Invariant: no length or count is used before it is checked against the bytes that are left.

#include "core/model/weights/gguf.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/utf8.h"
#include "core/model/weights/gguf_blocks.h"

namespace xrun {

namespace {

enum GgufValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kTypes
};

// By type. A string has at least its length, an array its type and its length.
constexpr uint64_t kValueBytes[kTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
constexpr int kMaxNesting = 4;
constexpr uint64_t kMaxName = 65535;
// A value takes 40 bytes in memory and as little as one in the file; vocabularies stay below 2^19.
constexpr uint64_t kMaxValues = 1 << 23;
constexpr uint32_t kMaxDimensions = 4;

// Reads the header, checks every length against the bytes left, and names the position in errors.
class GgufCursor {
 public:
  GgufCursor(std::string_view bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}: byte {}: {}", name_, at_, what));
  }

  template <typename T>
  T number(const char* what) {
    T value;
    need(sizeof value, what);
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  std::string string(const char* what, uint64_t most = UINT64_MAX) {
    const uint64_t size = number<uint64_t>(what);
    if (size > most) fail(fmt::format("{} has {} bytes, at most {} are allowed", what, size, most));
    need(size, what);
    std::string text(bytes_.substr(at_, size));
    if (!is_valid_utf8(text)) fail(fmt::format("{} is not valid UTF-8", what));
    at_ += size;
    return text;
  }

  // Reads a count of things that take at least `least` bytes each.
  uint64_t count(const char* what, uint64_t least) {
    const uint64_t value = number<uint64_t>(what);
    // Divided, since a product with a count from the file could overflow.
    if (value > left() / least) {
      fail(
          fmt::format("{} is {}, but only {} bytes are left; the file is truncated or damaged, "
                      "fetch it again",
                      what, value, left()));
    }
    // All counts of a header together, so that nested arrays cannot multiply.
    if (value > kMaxValues - values_) {
      fail(fmt::format("{} is {}; at most {} values are read of one header", what, value,
                       kMaxValues));
    }
    values_ += value;
    return value;
  }

 private:
  void need(uint64_t size, const char* what) const {
    if (size > left()) {
      fail(
          fmt::format("the file ends inside {}: {} bytes are needed, {} are left; it is truncated "
                      "or damaged, fetch it again",
                      what, size, left()));
    }
  }

  std::string_view bytes_;
  std::string name_;
  uint64_t at_ = 0, values_ = 0;
};

Json read_value(GgufCursor& in, uint32_t type, int depth);

// Nesting is bounded, since a hostile file may nest without end.
Json read_array(GgufCursor& in, int depth) {
  if (depth >= kMaxNesting) in.fail(fmt::format("arrays are nested deeper than {}", kMaxNesting));
  const uint32_t type = in.number<uint32_t>("an array's type");
  if (type >= kTypes) in.fail(fmt::format("an array's type is {}; known types: 0 to 12", type));
  const uint64_t count = in.count("an array's length", kValueBytes[type]);
  Json::Array values;
  // in.count has checked the length against the bytes left, so the reserve is bounded.
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) values.push_back(read_value(in, type, depth + 1));
  return Json(std::move(values));
}

Json read_value(GgufCursor& in, uint32_t type, int depth) {
  constexpr const char* kWhat = "a metadata value";
  switch (type) {
    case kU8: return int64_t{in.number<uint8_t>(kWhat)};
    case kI8: return int64_t{in.number<int8_t>(kWhat)};
    case kU16: return int64_t{in.number<uint16_t>(kWhat)};
    case kI16: return int64_t{in.number<int16_t>(kWhat)};
    case kU32: return int64_t{in.number<uint32_t>(kWhat)};
    case kI32: return int64_t{in.number<int32_t>(kWhat)};
    case kI64: return in.number<int64_t>(kWhat);
    case kF32: return static_cast<double>(in.number<float>(kWhat));
    case kF64: return in.number<double>(kWhat);
    case kString: return in.string("a metadata string");
    case kArray: return read_array(in, depth);
    case kU64: {
      const uint64_t value = in.number<uint64_t>(kWhat);
      // No key that is read needs such a number; it must not fail either.
      if (value > INT64_MAX) return static_cast<double>(value);
      return static_cast<int64_t>(value);
    }
    case kBool: {
      const uint8_t value = in.number<uint8_t>(kWhat);
      if (value > 1) in.fail(fmt::format("a boolean is {}, not 0 or 1", value));
      return value == 1;
    }
    default: in.fail(fmt::format("a metadata value has type {}; known types: 0 to 12", type));
  }
}

int64_t read_version(GgufCursor& in, std::string_view bytes, const std::string& name) {
  XRUN_CHECK(bytes.substr(0, 4) == "GGUF",
             "{}: is not a GGUF file: it does not begin with \"GGUF\"", name);
  // Passes the four bytes that are compared above.
  in.number<uint32_t>("the magic");
  const uint32_t version = in.number<uint32_t>("the version");
  // Both have the same layout; version 1 has 32-bit lengths.
  if (version == 2 || version == 3) return version;
  // The version with its bytes swapped.
  if (version == 2u << 24 || version == 3u << 24) {
    in.fail("the file is big-endian; only little-endian GGUF is read");
  }
  in.fail(fmt::format("GGUF version {} is not supported; supported: 2 and 3", version));
}

// Returns the bytes of `shape`, checking every product.
uint64_t tensor_bytes(GgufCursor& in, const GgufTensor& tensor) {
  const BlockFormat* format = find_block_format(tensor.format);
  if (format == nullptr) {
    in.fail(fmt::format("tensor {} is {}, which is not supported; use a file of {}", tensor.name,
                        block_format_name(tensor.format), block_format_list()));
  }
  const int64_t row = tensor.shape.back();
  if (row % format->values != 0) {
    in.fail(fmt::format("tensor {} has rows of {} values, which are not whole {} blocks of {}",
                        tensor.name, row, format->name, format->values));
  }
  // A row is whole blocks; rows follow one another.
  int64_t blocks = row / format->values;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    // An overflow saturates and fails the check below.
    if (__builtin_mul_overflow(blocks, tensor.shape[i], &blocks)) blocks = INT64_MAX;
  }
  if (blocks > INT64_MAX / format->bytes) {
    in.fail(fmt::format("tensor {} has more bytes than any file", tensor.name));
  }
  return static_cast<uint64_t>(blocks * format->bytes);
}

GgufTensor read_tensor_info(GgufCursor& in) {
  GgufTensor tensor;
  tensor.name = in.string("a tensor's name", kMaxName);
  const uint32_t dimensions = in.number<uint32_t>("a tensor's number of dimensions");
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    in.fail(fmt::format("tensor {} has {} dimensions, wanted 1 to {}", tensor.name, dimensions,
                        kMaxDimensions));
  }
  for (uint32_t i = 0; i < dimensions; ++i) {
    const uint64_t size = in.number<uint64_t>("a tensor's dimension");
    if (size < 1 || size > INT64_MAX) {
      in.fail(fmt::format("tensor {} has a dimension of {}", tensor.name, size));
    }
    // GGUF lists dimensions from the one whose elements are adjacent.
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  tensor.format = in.number<uint32_t>("a tensor's type");
  tensor.begin = in.number<uint64_t>("a tensor's offset");
  tensor.bytes = tensor_bytes(in, tensor);
  return tensor;
}

// A power of two within reason: the padding of the data depends on it.
uint64_t read_alignment(GgufCursor& in, const Json* value) {
  if (value == nullptr) return 32;
  if (!value->is_int() || value->as_int() < 1 || value->as_int() > (1 << 30) ||
      !std::has_single_bit(static_cast<uint64_t>(value->as_int()))) {
    in.fail(fmt::format("general.alignment is {}, wanted a power of two", dump_json(*value)));
  }
  return static_cast<uint64_t>(value->as_int());
}

// Turns offsets into file positions and checks them against the file size and each other.
void locate_tensors(const std::string& name, std::vector<GgufTensor>& tensors, uint64_t data,
                    uint64_t size, uint64_t alignment) {
  std::vector<const GgufTensor*> order;
  for (GgufTensor& tensor : tensors) {
    XRUN_CHECK(tensor.begin % alignment == 0,
               "{}: tensor {} begins at offset {}, which is not a multiple of the alignment {}",
               name, tensor.name, tensor.begin, alignment);
    // The padding before the data may reach beyond the end of the file.
    const uint64_t room = size - std::min(size, data);
    XRUN_CHECK(tensor.begin <= room && tensor.bytes <= room - tensor.begin,
               "{}: tensor {} needs {} bytes at offset {}, but only {} bytes of tensors are there; "
               "the file is truncated or damaged, fetch it again",
               name, tensor.name, tensor.bytes, tensor.begin, room);
    // After the checks: offsets of a file could overflow in the sum.
    tensor.begin += data;
    order.push_back(&tensor);
  }
  // Sorted by position, so that only neighbours can overlap.
  std::sort(order.begin(), order.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i) {
    XRUN_CHECK(order[i - 1]->begin + order[i - 1]->bytes <= order[i]->begin,
               "{}: tensors {} and {} overlap; the file is damaged", name, order[i - 1]->name,
               order[i]->name);
  }
}

}  // namespace

GgufFile::GgufFile(std::filesystem::path path) : path_(std::move(path)), file_(path_) {
  const std::string name = path_.string();
  refuse_lfs_pointer(file_.bytes(), name);
  GgufCursor in(file_.bytes(), name);
  version_ = read_version(in, file_.bytes(), name);
  // The least bytes of each: a name's length, the number of dimensions, one of them, format,
  // offset; a key's length, a type, a value.
  const uint64_t tensors = in.count("the number of tensors", 8 + 4 + 8 + 4 + 8);
  const uint64_t pairs = in.count("the number of metadata pairs", 8 + 4 + 1);
  for (uint64_t i = 0; i < pairs; ++i) {
    std::string key = in.string("a metadata key", kMaxName);
    if (!metadata_index_.emplace(key, metadata_.size()).second) {
      in.fail(fmt::format("the key {} occurs twice", key));
    }
    const uint32_t type = in.number<uint32_t>("a metadata type");
    metadata_.emplace_back(std::move(key), read_value(in, type, 0));
  }
  // Known only after the metadata, which come before the tensors.
  const uint64_t alignment = read_alignment(in, find("general.alignment"));
  for (uint64_t i = 0; i < tensors; ++i) {
    tensors_.push_back(read_tensor_info(in));
    if (!tensor_index_.emplace(tensors_.back().name, i).second) {
      in.fail(fmt::format("the tensor {} occurs twice", tensors_.back().name));
    }
  }
  // The next multiple of the alignment.
  const uint64_t data = (in.at() + alignment - 1) / alignment * alignment;
  locate_tensors(name, tensors_, data, file_.bytes().size(), alignment);
}

const Json* GgufFile::find(std::string_view key) const {
  const auto found = metadata_index_.find(key);
  return found == metadata_index_.end() ? nullptr : &metadata_[found->second].second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

// Decoded to fp32, one tensor at a time.
at::Tensor GgufFile::read(const GgufTensor& tensor) const {
  const BlockFormat* format = find_block_format(tensor.format);
  at::Tensor values = at::empty(tensor.shape, at::kFloat);
  const auto* data = reinterpret_cast<const uint8_t*>(file_.bytes().data()) + tensor.begin;
  format->decode(data, static_cast<int64_t>(tensor.bytes) / format->bytes,
                 values.mutable_data_ptr<float>());
  return values;
}

}  // namespace xrun
