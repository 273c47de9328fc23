// xrun types prints the definitions of the Lua names for editors.

#include <fmt/core.h>

#include <string>

#include "core/base/file.h"
#include "lua/api/api_text.h"
#include "lua/prompt/prompt_verbs.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"

namespace xrun {

int command_types(int argc, char** argv) {
  CLI::App app(
      "Prints a definition file for editors that use the Lua language server (LuaLS): every name, "
      "config key and operator with its types and documentation. `xrun init` puts it in a folder.",
      "xrun types");
  std::string out;
  app.add_option("-o,--output", out, "write to this file instead of standard output")
      ->type_name("FILE");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  register_docs();
  const std::string text = editor_stubs();
  if (out.empty()) {
    fmt::print("{}", text);
  } else {
    write_file_atomic(out, text);
  }
  return 0;
}

}  // namespace xrun
