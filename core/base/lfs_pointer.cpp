#include "core/base/lfs_pointer.h"

#include "core/base/error.h"

namespace xrun {

void refuse_lfs_pointer(std::string_view bytes, const std::string& path) {
  XRUN_CHECK(!bytes.starts_with("version https://git-lfs"),
             "{}: is a Git LFS pointer, not the file that it stands for; fetch that with git lfs "
             "pull",
             path);
}

}  // namespace xrun
