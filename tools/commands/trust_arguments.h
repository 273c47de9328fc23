#pragma once
// Declares the options of trust for the help pages; tools/untrusted.cpp takes them before a command
// starts.

#include <CLI/CLI.hpp>
#include <string>
#include <tuple>

namespace xrun {

inline void add_trust_arguments(CLI::App& app) {
  const auto nothing = [] {};
  app.add_flag_callback(
      "--untrusted", nothing,
      "work in a process with limits, as for bundles and recipes with a bundle's lock: "
      "files, network, programs and memory are out of the recipe's reach "
      "(docs/security.md)");
  app.add_flag_callback("--trusted", nothing, "work without limits, whoever wrote the recipe");
  for (const auto& [name, value, text] :
       {std::tuple{"--read", "PATH", "what an untrusted recipe may read besides its own folder"},
        {"--limit-seconds", "N", "seconds after which an untrusted recipe is ended (no limit)"},
        {"--limit-memory", "MB", "memory of an untrusted recipe (three quarters of the machine's)"},
        {"--limit-files", "MB",
         "growth of the folders that an untrusted recipe writes (half of the free space)"},
        {"--limit-output", "MB", "text that an untrusted recipe prints (1024)"}}) {
    app.add_option_function<std::string>(
           name, [](const std::string&) {}, text)
        ->type_name(value);
  }
}

}  // namespace xrun
