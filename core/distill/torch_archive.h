#pragma once
// The zip archive of a torch.save file: its pickle, its storages, and tensors that view them.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/zip_archive.h"
#include "core/distill/torch_file.h"

namespace xrun {

struct TorchStorage {
  TorchType type;
  std::string_view bytes;
};

// Returns `name` as a constant string if it is a storage's class, "torch.FloatStorage"; else "".
std::string_view torch_storage_class(std::string_view name);

class TorchArchive {
 public:
  // Views `bytes`, which must outlive the object. Throws Error that starts with `name` if they are
  // not such an archive.
  TorchArchive(std::string_view bytes, const std::string& name);
  TorchArchive(const TorchArchive&) = delete;

  std::string_view pickle() const { return pickle_; }

  // Returns the storage data/KEY without checking its checksum. Throws Error with the reason alone
  // if there is none of this class and size.
  TorchStorage storage(std::string_view class_name, std::string_view key, int64_t elements) const;
  // Checks the checksum of a key that storage() has accepted. Throws Error that starts with `name`.
  void check_storage(std::string_view key);

 private:
  const ZipMember* find(const std::string& name) const;

  ZipReadText text_;
  std::string prefix_;  // "NAME/"
  std::vector<ZipMember> members_;
  std::unordered_map<std::string_view, const ZipMember*> by_name_;
  std::unordered_set<const ZipMember*> checked_;
  std::string_view pickle_;
};

// Returns a view of a storage. Requires that no offset, size or stride is negative. Throws Error
// with the reason alone if the shape and the stride differ in length, or if an element is beyond
// the storage.
TorchTensor tensor_over(const TorchStorage& storage, int64_t offset, std::vector<int64_t> shape,
                        std::vector<int64_t> stride);

}  // namespace xrun
