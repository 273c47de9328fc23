// xrun import converts a llama-architecture GGUF file to a Hugging Face folder.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "core/model/weights/gguf_import.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"

namespace xrun {

int command_import(int argc, char** argv) {
  CLI::App app("Converts a llama-architecture GGUF file to a Hugging Face folder (fp32)",
               "xrun import");
  std::string file, out;
  app.add_option("FILE", file, "the GGUF file: F32, F16, BF16, Q8_0, Q4_0, Q4_1")->required();
  app.add_option("OUT", out, "the folder to create")->required();
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  const GgufImport report = import_gguf(file, out);
  fmt::print("{}: {} tensors, {} parameters, {} tokens\n", out, report.tensors, report.parameters,
             report.vocab);
  return 0;
}

}  // namespace xrun
