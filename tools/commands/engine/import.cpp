// xrun import: a llama-architecture GGUF file as a Hugging Face folder.

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <cstdio>
#include <string>

#include "core/base/error.h"
#include "core/model/gguf_import.h"
#include "tools/commands/engine/engine_commands.h"

namespace xrun {

int command_import(int argc, char** argv) {
  CLI::App app("Makes a Hugging Face folder (fp32) of a llama-architecture GGUF file",
               "xrun import");
  std::string file, out;
  app.add_option("FILE", file, "the GGUF file: F32, F16, BF16, Q8_0, Q4_0, Q4_1")->required();
  app.add_option("OUT", out, "the folder to make")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const GgufImport report = import_gguf(file, out);
  fmt::print("{}: {} tensors, {} parameters, {} tokens\n", out, report.tensors, report.parameters,
             report.vocab);
  return 0;
}

}  // namespace xrun
