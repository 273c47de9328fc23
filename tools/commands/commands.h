#pragma once
// The commands of xrun, one file each: commands/NAME.cpp in the executable, which starts fast, and
// commands/engine/NAME.cpp in libxrun_engine.so, which computes.

#include <filesystem>
#include <string>

namespace xrun {

// Each takes its own arguments, argv[0] is its name, and returns the exit status:
// 0 done, 1 the data failed, 2 bad usage. They throw Error and UsageError; main prints those.
int command_tokenize(int argc, char** argv);
int command_render(int argc, char** argv);
int command_align(int argc, char** argv);
int command_cache(int argc, char** argv);
int command_report(int argc, char** argv);
int command_diff(int argc, char** argv);
int command_launch(int argc, char** argv);
int command_bench(int argc, char** argv);
int command_test(int argc, char** argv);

// Returns the folder that --tokenizer of a light command names, by its path or by a name that
// --model takes; a name loads the engine. Throws UsageError as resolve_model does.
std::filesystem::path tokenizer_folder(const std::string& name);

}  // namespace xrun

// The engine's entry: the whole command line as main got it (argv[1] is a command or a recipe).
// Returns the exit status; throws as the commands do.
extern "C" int xrun_engine_main(int argc, char** argv);

// Sets `folder` to that of a model's name (model_registry.h), of an adapter to its base's.
extern "C" void xrun_engine_model_folder(const std::string& name, std::filesystem::path& folder);
