// A bundle of someone else: an Error, or members that are all below their folder and a lock that is
// read back as it was.
//
// The first byte says which: 'z' a whole file, anything else the lock of a bundle with one member.

#include "core/base/error.h"
#include "core/base/zip_archive.h"
#include "core/bundle/bundle_file.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

constexpr const char* kRecipe = "return 1";

std::string bundle_with_lock(std::string_view lock) {
  const ZipEntry entries[] = {{.name = kBundleLock, .bytes = lock.size(), .crc = zip_crc32(lock)},
                              {.name = "recipe/a.lua",
                               .bytes = std::string_view(kRecipe).size(),
                               .crc = zip_crc32(kRecipe)}};
  return zip_header(entries[0]) + std::string(lock) + zip_header(entries[1]) + kRecipe +
         zip_directory(entries);
}

}  // namespace

void fuzz_bundle(std::string_view input) {
  if (input.empty()) return;
  std::string bytes(input.substr(1));
  if (input[0] != 'z') bytes = bundle_with_lock(bytes);
  try {
    const Bundle bundle = Bundle::of_bytes(bytes, "fuzzed.xrb");
    const BundleLock& lock = bundle.lock();
    fuzz_check(lock_text(parse_lock(lock_text(lock), "again")) == lock_text(lock),
               "a lock is not read back as it was");
    bool has_recipe = false;
    for (const LockedFile& member : lock.members) {
      fuzz_check(bad_member_name(member.name).empty(), "a member leaves its folder");
      has_recipe = has_recipe || member.name == lock.recipe;
    }
    fuzz_check(has_recipe, "the recipe is not a member");
    bundle.verify();
  } catch (const Error&) {
  }
}

}  // namespace xrun
