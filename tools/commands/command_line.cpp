// Bad usage ends with status 2, whatever status CLI11 gives it.

#include "tools/commands/command_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "core/config/config_field.h"

namespace xrun {

namespace {

constexpr int64_t kAnyMachine = 64;  // threads that even one core gets through (4 s on two)

int64_t hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

// CLI11's own range checks print their limits as doubles with 309 digits.
CLI::Validator whole_number_within(int64_t lowest, int64_t highest, const std::string& wanted) {
  return CLI::Validator(
      [=](std::string& text) {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        return whole && value >= lowest && value <= highest
                   ? std::string()
                   : fmt::format("got {}, wanted {}", text, wanted);
      },
      "");
}

// The engine's key of an option: "optim.lr" for lr, learning-rate or optim.lr; "" if there is
// none or there are several.
std::string key_of_option(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  if (find_config_field(name) != nullptr) return name;
  std::string path;
  if (!foreign_name_hint(name, &path).empty() && !path.empty()) {
    const bool table = find_config_field(path)->kind == FieldKind::kTable;
    return table ? path + "." + config_field_names(path).front() : path;
  }
  std::vector<std::string> found;
  for (const ConfigField& field : config_fields()) {
    if (field.path.ends_with("." + name)) found.push_back(field.path);
  }
  return found.size() == 1 ? found[0] : "";
}

// "--lr is not an option; ..." for the first unknown option of a command that takes --set, or "".
std::string unknown_option_text(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> rest = app.remaining();
  if (app.get_option_no_throw("--set") != nullptr &&
      std::find(rest.begin(), rest.end(), "=") != rest.end()) {
    return "a setting has no blanks around its =: --set key=value";
  }
  const auto found = std::find_if(rest.begin(), rest.end(), [](const std::string& argument) {
    return argument.starts_with("--") && argument.size() > 2;
  });
  if (found == rest.end() || app.get_option_no_throw("--set") == nullptr) return "";
  const size_t equals = std::min(found->find('='), found->size());
  const std::string option = found->substr(0, equals);
  std::string key = key_of_option(option.substr(2));
  std::vector<std::string> options;
  for (const CLI::Option* known : app.get_options()) {
    for (const std::string& name : known->get_lnames()) options.push_back("--" + name);
  }
  if (const std::string near = nearest_name(option, options); key.empty() && !near.empty()) {
    return fmt::format("{} is not an option; did you mean {}?", option, near);
  }
  if (key.empty()) key = option.substr(2);  // a key of the recipe
  // The word after it on the command line; it may have been taken for the recipe.
  std::string after;
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == *found && argv[i + 1][0] != '\0' &&
        !std::string_view(argv[i + 1]).starts_with("--")) {
      after = argv[i + 1];
    }
  }
  const std::string value = equals < found->size() ? found->substr(equals + 1)
                            : !after.empty()       ? after
                                                   : "VALUE";
  return fmt::format("{} is not an option; config keys are set with --set {}={}", option, key,
                     shell_word(value));
}

// "--threads: At Most 1 required but received 2", as CLI11 says it, in plain words.
std::string plain_parse_error(const std::string& text) {
  for (const auto& [of_parser, plain] :
       {std::pair("At Most ", "at most "), std::pair("At least ", "at least ")}) {
    const size_t begin = text.find(of_parser);
    const size_t middle = text.find(" required but received ");
    if (begin == std::string::npos || middle == std::string::npos || middle < begin) continue;
    const size_t number = begin + std::string_view(of_parser).size();
    return fmt::format("{}got {}, wanted {}{}", text.substr(0, begin),
                       text.substr(middle + std::string_view(" required but received ").size()),
                       plain, text.substr(number, middle - number));
  }
  return text;
}

}  // namespace

std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError& error) {
    const std::string text = unknown_option_text(app, argc, argv);
    if (text.empty()) return app.exit(error) == 0 ? 0 : 2;
    fmt::print(stderr, "xrun: {}\nRun with --help for more information.\n", text);
    return 2;
  } catch (const CLI::ArgumentMismatch& error) {
    fmt::print(stderr, "{}\nRun with --help for more information.\n",
               plain_parse_error(error.what()));
    return 2;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

CLI::Validator whole_number(int64_t lowest) {
  return whole_number_within(lowest, std::numeric_limits<int64_t>::max(),
                             fmt::format("a whole number from {}", lowest));
}

CLI::Validator thread_count() {
  const int64_t highest = std::max(kAnyMachine, 4 * hardware_threads());
  return whole_number_within(
      1, highest,
      fmt::format("a whole number from 1 to {}; this machine runs {} at once", highest,
                  hardware_threads()));
}

CLI::Validator existing_folder() {
  return CLI::Validator(
      [](std::string& path) {
        std::error_code code;
        if (std::filesystem::is_directory(path, code)) return std::string();
        return fmt::format("{}: {}", path,
                           code ? "cannot be opened: " + code.message() : "is not a folder");
      },
      "");
}

void warn_of_threads(int threads) {
  if (threads <= hardware_threads()) return;
  fmt::print(stderr, "xrun: {} threads on a machine that runs {} at once wait for each other\n",
             threads, hardware_threads());
}

}  // namespace xrun
