// Names and contents of run folders are untrusted text: shown_text keeps them from the terminal.

#include "tools/commands/run_notices.h"

#include <cstdio>

#include "core/console/terminal/shown_text.h"

namespace xrun {

void warn_of_gaps(const std::vector<RunFiles>& runs) {
  for (const RunFiles& run : runs) {
    for (const std::string& notice : run.notices) {
      std::fprintf(stderr, "xrun: %s: %s\n", shown_text(run.dir.string()).c_str(),
                   shown_text(notice).c_str());
    }
  }
}

}  // namespace xrun
