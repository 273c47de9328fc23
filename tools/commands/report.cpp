// xrun report RUN...: one self-contained page about runs, finished or not.

#include "core/console/report/report.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/run/record/run_files.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/run_notices.h"

namespace xrun {

int command_report(int argc, char** argv) {
  CLI::App app(
      "Writes one self-contained HTML page about runs: curves, samples, data, settings, "
      "time, memory and hashes. Several runs are drawn over each other.",
      "xrun report");
  std::vector<std::string> dirs;
  std::string out = "report.html";
  app.add_option("RUN", dirs, "folders of runs")->required();
  app.add_option("-o,--output", out, "the page's file; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  std::vector<RunFiles> runs = read_runs(dirs);
  for (RunFiles& run : runs) {
    run.sources = sample_sources(run.record, run.config, run.dir, cache_root() / "data");
  }
  const std::string page = report_page(runs);
  warn_of_gaps(runs);
  if (out == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return 0;
  }
  write_file_atomic(out, page);
  std::printf("%s (%s)\n", out.c_str(), format_bytes(static_cast<double>(page.size())).c_str());
  return 0;
}

}  // namespace xrun
