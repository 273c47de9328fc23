#include "core/run/disk_space.h"

#include "core/base/count_text.h"
#include "core/base/error.h"
#include "core/base/folder_list.h"

namespace xrun {

void check_disk_space(const std::filesystem::path& dir, int64_t wanted) {
  std::error_code code;
  const std::filesystem::space_info space = std::filesystem::space(nearest_existing(dir), code);
  if (code || space.available == static_cast<uintmax_t>(-1)) return;
  XRUN_CHECK(static_cast<double>(space.available) >= static_cast<double>(wanted),
             "{}: {} are free on this disk, the checkpoints of this run take {}; free some space, "
             "keep fewer (save.keep), or give --run a folder on another disk",
             dir.string(), format_bytes(static_cast<double>(space.available)),
             format_bytes(static_cast<double>(wanted)));
}

}  // namespace xrun
