// The engine's entry points: one runs a command, one finds the folder of a model.

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/ops/allocator.h"
#include "core/model/ops/matrix_product.h"
#include "kernels/cpu/kernels.h"
#include "tools/commands/commands.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/model_arguments.h"

namespace xrun {

namespace {

struct EngineCommand {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

constexpr EngineCommand kCommands[] = {
    {"score", command_score},
    {"sample", command_sample},
    {"init-model", command_init_model},
    {"models", command_models},
    {"import", command_import},
    {"projection", command_projection},
    {"explain", command_explain},
    {"cache", command_cache_recipe},
    {"check", command_check},
    {"plan", command_plan},
    {"doctor", command_doctor},
    {"verify-resume", command_verify_resume},
    {"bundle", command_bundle},
    {"verify", command_verify},
    {"types", command_types},
    {"init", command_init},
    {"repl", command_repl},
    {"inspect", command_inspect},
};

// Throws UsageError for an unknown XRUN_CPU. The kernels themselves cannot throw: for an unknown
// name they would choose the fastest.
void check_kernel_choice() {
  const char* wanted = std::getenv("XRUN_CPU");
  if (wanted == nullptr || *wanted == 0 || kernels::cpu_kernels_named(wanted) != nullptr) return;
  std::string known;
  for (const char* name : {"avx512", "avx2", "portable"}) {
    if (kernels::cpu_kernels_named(name) != nullptr) add_item(known, name);
  }
  throw UsageError(
      fmt::format("XRUN_CPU: got {}, wanted one that this machine can run: {}", wanted, known));
}

int run(int (*command)(int, char**), int argc, char** argv) {
  try {
    check_kernel_choice();
    return command(argc, argv);
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace());  // what() ends in pages of C++ frames
  }
}

}  // namespace

}  // namespace xrun

extern "C" int xrun_engine_main(int argc, char** argv) {
  // Before the first tensor and the first kernel.
  xrun::tune_allocator();
  xrun::install_memory_count();
  xrun::report_lost_memory();
  xrun::bound_kernel_caches();
  const std::string_view name = argv[1];
  for (const xrun::EngineCommand& command : xrun::kCommands) {
    if (command.name == name) return xrun::run(command.run, argc - 1, argv + 1);
  }
  return xrun::run(xrun::command_recipe, argc, argv);
}

extern "C" void xrun_engine_model_folder(const std::string& name, std::filesystem::path& folder) {
  folder = xrun::named_model_folder(name, "tokenizer").base;
}
