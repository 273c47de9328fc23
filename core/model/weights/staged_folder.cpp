// A hidden sibling folder is filled, synced, and exchanged with the target by one rename.

#include "core/model/weights/staged_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/folder.h"

namespace xrun {

namespace {

// An empty folder may be replaced: people make it before the command.
bool is_filled(const std::filesystem::path& dir) {
  std::error_code code;
  return std::filesystem::exists(dir, code) && !std::filesystem::is_empty(dir, code);
}

}  // namespace

StagedFolder::StagedFolder(std::filesystem::path target, bool replace)
    : target_(absolute_path(target).lexically_normal()) {
  if (target_.filename().empty()) target_ = target_.parent_path();  // "dir/" is dir
  XRUN_CHECK(replace || !is_filled(target_),
             "{}: already exists and is not empty; name another folder or remove it",
             target.string());
  check_write(target_);
  make_dirs(target_.parent_path());
  // Hidden, beside the target and so on its file system; the process id keeps two writers apart.
  work_ = target_.parent_path() / fmt::format(".{}.tmp{}", target_.filename().string(), ::getpid());
  check_write(work_);
  // Left over from a kill of an earlier process with this id.
  std::error_code code;
  std::filesystem::remove_all(work_, code);
  if (!code) std::filesystem::create_directory(work_, code);
  // The user knows the folder by its own name.
  XRUN_CHECK(!code, "{}: the folder cannot be created: {}", target_.string(), code.message());
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  // After an exchange this is the folder that was replaced.
  std::filesystem::remove_all(work_, ignored);
}

void StagedFolder::commit() {
  // The files were synced as they were written; their names are entries of the folder.
  sync_dir(work_);
  // With an exchange there is always a folder of this name; the old one is then in work_.
  const bool exchanged =
      ::renameat2(AT_FDCWD, work_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0;
  if (exchanged) {
    sync_dir(target_.parent_path());
    return;
  }
  // Without a target a plain rename is enough. A file system without exchanges needs the target
  // removed first; after any other failure (a mount point is busy) it must not be lost.
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) remove_tree(target_);
  rename_durable(work_, target_);
}

}  // namespace xrun
