// Opens an untrusted bundle: an Error, or all members lie below their folder, and the lock is the
// same after it was written and read again.
//
// After a first byte 'z' the input is a whole file, else the lock of a bundle with one member.

#include "core/base/error.h"
#include "core/bundle/bundle_file.h"
#include "tools/fuzz/archive_of.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

void fuzz_bundle(std::string_view input) {
  if (input.empty()) return;
  std::string bytes(input.substr(1));
  if (input[0] != 'z') bytes = archive_of({{kBundleLock, bytes}, {"recipe/a.lua", "return 1"}});
  try {
    const Bundle bundle = Bundle::of_bytes(bytes, "fuzzed.xrb");
    const BundleLock& lock = bundle.lock();
    fuzz_check(lock_text(parse_lock(lock_text(lock), "again")) == lock_text(lock),
               "a lock changes when it is written and read again");
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
