// NAME/data.pkl is a pickle whose persistent ids name storages; NAME/data/KEY has the bytes of one.

#include "core/distill/torch_archive.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

// Room for five million entries of a sparse projection. Reading takes 16 to 60 times the memory.
constexpr uint64_t kMaxPickleBytes = uint64_t{128} << 20;

struct TorchTypeName {
  std::string_view storage;  // the class of a storage
  const char* dtype;
  TorchType type;
  int64_t bytes;  // of an element
};
// Every TorchType once.
constexpr TorchTypeName kTorchTypes[] = {
    {"torch.DoubleStorage", "float64", TorchType::kFloat64, 8},
    {"torch.FloatStorage", "float32", TorchType::kFloat32, 4},
    {"torch.HalfStorage", "float16", TorchType::kFloat16, 2},
    {"torch.BFloat16Storage", "bfloat16", TorchType::kBFloat16, 2},
    {"torch.LongStorage", "int64", TorchType::kInt64, 8},
    {"torch.IntStorage", "int32", TorchType::kInt32, 4},
    {"torch.ShortStorage", "int16", TorchType::kInt16, 2},
    {"torch.CharStorage", "int8", TorchType::kInt8, 1},
    {"torch.ByteStorage", "uint8", TorchType::kUInt8, 1},
    {"torch.BoolStorage", "bool", TorchType::kBool, 1},
};

const TorchTypeName& names_of(TorchType type) {
  return *std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes),
                       [&](const TorchTypeName& known) { return known.type == type; });
}

}  // namespace

const char* torch_type_name(TorchType type) { return names_of(type).dtype; }

std::string_view torch_storage_class(std::string_view name) {
  for (const TorchTypeName& known : kTorchTypes) {
    if (name == known.storage) return known.storage;
  }
  return "";
}

TorchArchive::TorchArchive(std::string_view bytes, const std::string& name)
    : text_{.where = name,
            .no_archive = ", as torch.save has written them since PyTorch 1.6",
            .compressed = ", which torch.save never does",
            .wrong_crc =
                ": the file is damaged, or was saved with "
                "torch.serialization.set_crc32_options(False)"},
      members_(read_stored_zip(bytes, text_)) {
  for (const ZipMember& member : members_) {
    by_name_[member.name] = &member;
    const size_t slash = member.name.find('/');
    if (slash != std::string::npos && member.name.substr(slash) == "/data.pkl") {
      prefix_ = member.name.substr(0, slash + 1);
    }
  }
  const ZipMember* pickle = prefix_.empty() ? nullptr : find("data.pkl");
  XRUN_CHECK(pickle != nullptr,
             "{}: is a zip archive without a data.pkl: torch.save did not write it", name);
  XRUN_CHECK(pickle->data.size() <= kMaxPickleBytes,
             "{}: its data.pkl has {} bytes, the limit is {}", name, pickle->data.size(),
             kMaxPickleBytes);
  check_zip_member(*pickle, text_);
  if (const ZipMember* order = find("byteorder")) {
    XRUN_CHECK(order->data == "little", "{}: was saved on a big-endian machine", name);
  }
  pickle_ = pickle->data;
}

const ZipMember* TorchArchive::find(const std::string& name) const {
  const std::string whole = prefix_ + name;
  const auto found = by_name_.find(whole);
  return found == by_name_.end() ? nullptr : found->second;
}

TorchStorage TorchArchive::storage(std::string_view class_name, std::string_view key,
                                   int64_t elements) const {
  const TorchTypeName* type = nullptr;
  for (const TorchTypeName& known : kTorchTypes) {
    if (known.storage == class_name) type = &known;
  }
  XRUN_CHECK(type != nullptr, "a persistent id does not name a storage");
  const ZipMember* member = find(fmt::format("data/{}", key));
  XRUN_CHECK(member != nullptr, "the archive has no storage {}", shortened(key, 50));
  const uint64_t size = member->data.size(), width = static_cast<uint64_t>(type->bytes);
  XRUN_CHECK(elements >= 0 && static_cast<uint64_t>(elements) == size / width && size % width == 0,
             "the storage {} has {} bytes, wanted {} elements of {} bytes", shortened(key, 50),
             size, elements, type->bytes);
  return {type->type, member->data};
}

void TorchArchive::check_storage(std::string_view key) {
  const ZipMember* member = find(fmt::format("data/{}", key));
  // Once for each storage: a hostile pickle may name one a million times.
  if (checked_.insert(member).second) check_zip_member(*member, text_);
}

TorchTensor tensor_over(const TorchStorage& storage, int64_t offset, std::vector<int64_t> shape,
                        std::vector<int64_t> stride) {
  XRUN_CHECK(shape.size() == stride.size(), "a tensor's shape has {} dimensions, its stride {}",
             shape.size(), stride.size());
  TorchTensor tensor{storage.type, storage.bytes, offset, std::move(shape), std::move(stride)};
  const auto elements = static_cast<int64_t>(storage.bytes.size()) / names_of(storage.type).bytes;
  int64_t count = 1, last = tensor.offset;
  bool empty = false, overflows = false;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    // The stride of a dimension of one element is never taken, so it may be out of bounds.
    if (tensor.shape[d] == 1) tensor.stride[d] = 0;
    empty |= tensor.shape[d] == 0;
    int64_t reach = 0;
    overflows |= __builtin_mul_overflow(count, tensor.shape[d], &count) ||
                 __builtin_mul_overflow(tensor.shape[d] - 1, tensor.stride[d], &reach) ||
                 __builtin_add_overflow(last, reach, &last);
  }
  if (empty) {
    tensor.offset = 0;
    return tensor;
  }
  // More elements than the storage has (a stride of 0) would ask for memory that the file lacks.
  XRUN_CHECK(!overflows && last < elements && count <= elements,
             "a tensor extends beyond its storage");
  return tensor;
}

}  // namespace xrun
