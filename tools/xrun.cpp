// The only main. Light commands run at once; those that compute are in libxrun_engine.so beside the
// executable, loaded only then, so that a tokenizer or a template answers in milliseconds.

#include <dlfcn.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "core/data/cache/data_files.h"
#include "tools/commands/command_names.h"
#include "tools/commands/commands.h"
#include "tools/commands/recipe_hint.h"
#include "tools/untrusted.h"

namespace xrun {

namespace {

struct LightCommand {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

// Every other command is the engine's.
constexpr LightCommand kLightCommands[] = {
    {"tokenize", command_tokenize}, {"render", command_render}, {"align", command_align},
    {"cache", command_cache},       {"report", command_report}, {"diff", command_diff},
    {"launch", command_launch},     {"bench", command_bench},   {"test", command_test},
};

// Commands of other programs, with what does the same here.
struct OtherWord {
  std::string_view word, here;
};

constexpr OtherWord kOtherWords[] = {
    {"compare", "`xrun diff A B` compares"},
    {"chat", "`xrun sample --model DIR --chat` chats"},
    {"resume", "`xrun RECIPE.lua --resume` continues a run"},
    {"version", "`xrun --version` prints the version"},
    {"export", "`run:export` in the recipe writes a model's weights"},
};

void print_help() {
  std::printf(
      "usage: xrun RECIPE.lua|FILE.xrb [--set key=value] [--run DIR] [--resume] [--steps N]\n"
      "            [--device cpu|cuda] [--threads N]\n");
  std::printf("       xrun COMMAND [--help] ...\n\ncommands:\n");
  for (const CommandName& command : kCommandNames) {
    fmt::print("  {:14} {}\n", command.name, command.summary);
  }
  fmt::print("  {:14} {}\n", "help", "print this page");
  fmt::print("  {:14} {}\n", "--version", "print the version");
}

[[noreturn]] void throw_unknown(const std::string& name) {
  if (is_settings_file(name)) throw UsageError(settings_file_text(name));
  if (is_data_name(name) && is_file(name)) throw UsageError(data_as_recipe_text(name));
  if (const std::string file = recipe_file(name); !file.empty()) {
    throw UsageError(fmt::format("there is no command \"{}\"; a recipe is a Lua file: {} {}", name,
                                 called_as(), shell_word(file)));
  }
  std::vector<std::string> names = {"help"};
  for (const CommandName& command : kCommandNames) names.emplace_back(command.name);
  const std::string near = nearest_name(name, names);
  // The exact name of a recipe wins over a command of similar spelling.
  if (const std::string recipe = nearest_recipe(name);
      recipe == name || (near.empty() && !recipe.empty())) {
    throw UsageError(fmt::format("there is no command \"{}\"; a recipe is a Lua file: {}", name,
                                 recipe_command(recipe)));
  }
  std::error_code none;
  if (std::filesystem::is_regular_file(std::filesystem::path(name) / "run.json", none)) {
    throw UsageError(fmt::format(
        "{0} is the folder of a run: {1} report {0} shows it, {1} RECIPE.lua --run {0} --resume "
        "continues it",
        name, called_as()));
  }
  for (const OtherWord& other : kOtherWords) {
    if (name != other.word) continue;
    throw UsageError(fmt::format("there is no command \"{}\"; {}", name, other.here));
  }
  const bool trains = name == "run" || !nearest_name(name, {"train"}).empty();
  if (near.empty() && trains) {
    throw UsageError(
        fmt::format("there is no command \"{}\"; a recipe trains: xrun RECIPE.lua", name));
  }
  throw UsageError(fmt::format("there is no command \"{}\"{}; `xrun help` lists them", name,
                               near.empty() ? "" : " (did you mean " + near + "?)"));
}

// Loads the engine from the executable's own folder, once; returns the function of that name.
template <class Function>
Function* engine_function(const char* name) {
  // OpenMP reads this when it is loaded. Its own default spins for milliseconds at every barrier,
  // which on a machine that others use too made a training step take twice as long (15.3 s, 7.3 s).
  setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
  const std::filesystem::path self = program_path();
  const std::string path = self.parent_path() / "libxrun_engine.so";
  void* engine = dlopen(path.c_str(), RTLD_NOW);
  XRUN_CHECK(engine != nullptr,
             "the engine cannot be loaded: {}; if LibTorch was moved or removed, `rm "
             "build/built-run; ./xrun --version` in the source tree sets it up again, and "
             "XRUN_TORCH=DIR before it takes another one",
             dlerror());
  const auto function = reinterpret_cast<Function*>(dlsym(engine, name));
  XRUN_CHECK(function != nullptr, "{} has no entry: {}", path, dlerror());
  return function;
}

int run_engine(int argc, char** argv) {
  return engine_function<decltype(xrun_engine_main)>("xrun_engine_main")(argc, argv);
}

// Runs a recipe whose options come first. The options of a command must follow it.
int run_options_first(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (is_recipe(argument)) return run_engine(argc, argv);
    if (argument.find('=') == std::string::npos && is_settings_file(argument))
      throw UsageError(settings_file_text(argument));
    if (find_command(argument) == nullptr) continue;
    throw UsageError(fmt::format("options follow the command: xrun {} {} ...", argument, argv[1]));
  }
  throw UsageError(fmt::format("{} needs a recipe or a command before it: xrun RECIPE.lua {} ...",
                               argv[1], argv[1]));
}

// Returns true if an argument after the command is a recipe.
bool takes_recipe(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    if (is_recipe(argv[i])) return true;
  }
  return false;
}

int dispatch(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "help";
  // `help NAME` is `NAME --help`.
  if (name == "help" && argc > 2) {
    char option[] = "--help";
    char* asked[] = {argv[0], argv[2], option, nullptr};
    return dispatch(3, asked);
  }
  if (name == "help" || name == "--help" || name == "-h") {
    print_help();
    return 0;
  }
  if (name == "--version") {
    std::printf("xrun %s\n", XRUN_VERSION);
    return 0;
  }
  for (const LightCommand& command : kLightCommands) {
    if (name != command.name) continue;
    // Building the caches of a recipe needs the engine; ls, verify and rm do not.
    if (name == "cache" && takes_recipe(argc, argv)) return run_engine(argc, argv);
    return command.run(argc - 1, argv + 1);
  }
  if (find_command(name) != nullptr || is_recipe(name)) return run_engine(argc, argv);
  if (name.starts_with('-')) return run_options_first(argc, argv);
  throw_unknown(name);
}

// A recipe that is not trusted runs in a child, which comes here again.
int run(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  const TrustOptions trust = take_trust_options(arguments);
  set_named_paths(trust.read);
  if (trust.untrusted) {
    if (!is_untrusted_child()) return run_untrusted(trust, argv);
    enter_untrusted(trust);
  }
  arguments.push_back(nullptr);
  return dispatch(static_cast<int>(arguments.size()) - 1, arguments.data());
}

// Returns `status`. Throws Error if the output did not reach its file; a reader that closed its
// pipe has all it wanted.
int finish(int status) {
  const bool flushed = std::fflush(stdout) == 0;
  const int code = errno;
  if (flushed && std::ferror(stdout) == 0) return status;
  // POLLERR on a pipe: its reader is gone.
  pollfd out = {STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0) return status;
  throw Error(flushed ? "standard output could not be written completely"
                      : fmt::format("standard output cannot be written: {}", std::strerror(code)));
}

// Prints the message escaped: rows and paths that it quotes must not move the cursor.
int report(const char* message, int status) {
  std::fflush(stdout);
  std::fprintf(stderr, "xrun: error: %s\n", shown_text(message).c_str());
  return status;
}

// Runs the command and reports its error; returns the exit status.
int run_and_report(int argc, char** argv) {
  try {
    return finish(run(argc, argv));
  } catch (const Interrupted& stop) {
    return 128 + stop.signal_number();
  } catch (const UsageError& error) {
    return report(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return report("out of memory", 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}

}  // namespace

std::filesystem::path tokenizer_folder(const std::string& name) {
  std::error_code code;
  std::filesystem::path folder = name;
  if (!std::filesystem::is_directory(folder, code)) {
    engine_function<decltype(xrun_engine_model_folder)>("xrun_engine_model_folder")(name, folder);
  }
  return folder;
}

}  // namespace xrun

int main(int argc, char** argv) {
  // Commands to copy begin as the user called the program; the wrapper ./xrun has set its own name.
  if (argc > 0 && std::strchr(argv[0], '/') != nullptr) {
    setenv("XRUN_CALLED_AS", argv[0], /*overwrite=*/0);
  }
  signal(SIGXFSZ, SIG_IGN);  // a file beyond the system's limit is an error of its write
  const int status = xrun::run_and_report(argc, argv);
  std::fflush(nullptr);
  // Skips the static destructors: LibTorch's remove its operators from a registry one by one, a
  // quarter of the CPU time of a short run.
  ::_exit(status);
}
