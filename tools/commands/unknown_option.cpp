// Meanings are tried in this order: a key of the recipe, a name of another library, a key of the
// engine, a plain argument, a misspelt option or key.

#include "tools/commands/unknown_option.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/config/config_base.h"
#include "core/config/config_field.h"
#include "core/config/config_scan.h"
#include "core/config/foreign_names.h"

namespace xrun {

namespace {

constexpr uint64_t kMostScannedBytes = uint64_t{1} << 20;  // of a recipe, for a hint

// Returns the engine's key of an option: "optim.lr" for lr or optim.lr; "" if there is none or
// there are several.
std::string key_of_option(const std::string& name) {
  if (const ConfigField* field = find_config_field(name)) {
    // A list of tables stands for the first key of its first element: --data FILE.
    const std::vector<std::string> keys = config_field_names(name + ".1");
    return field->kind == FieldKind::kList && !keys.empty() ? name + ".1." + keys[0] : name;
  }
  std::vector<std::string> found;
  // The last part of a path, if no other path ends in it.
  for (const ConfigField& field : config_fields()) {
    // Not the fields of a list of tables, which --set cannot name.
    const bool in_list = field.path.find("[]") != std::string::npos;
    if (field.path.ends_with("." + name) && !in_list) found.push_back(field.path);
  }
  return found.size() == 1 ? found[0] : "";
}

// Returns the top-level config keys of the command line's recipe.
std::vector<std::string> keys_of_recipe(int argc, char** argv) {
  std::vector<std::string> keys;
  for (int i = 1; i < argc; ++i) {
    if (!std::string_view(argv[i]).ends_with(".lua")) continue;
    try {
      const ScannedRecipe recipe = scan_with_bases(argv[i], read_file(argv[i], kMostScannedBytes));
      for (const Literal::Entry& entry : recipe.config.entries) keys.push_back(entry.key);
    } catch (const Error&) {
      // The recipe's own error is reported when it runs.
    }
    break;
  }
  return keys;
}

// Returns the value of an option as --set takes it for a field ("true" for the True of Python and
// for a flag without a value), or "" if the field does not take it. An option without a value has
// VALUE in its place.
std::string value_for(const ConfigField& field, const std::string& given) {
  if (field.kind == FieldKind::kFlag) {
    const bool on = given.empty() || given == "True" || given == "true";
    return on ? "true" : given == "False" || given == "false" ? "false" : "";
  }
  const auto literal = parse_literal(given);
  const Json text(given);
  if (given.empty()) {
    const bool scalar = field.kind == FieldKind::kText || field.kind == FieldKind::kTextOrTable ||
                        field.kind == FieldKind::kWhole || field.kind == FieldKind::kNumber;
    return scalar ? "VALUE" : "";
  }
  const bool taken = fits(field, text) || (literal && fits(field, literal_json(*literal)));
  return taken ? given : "";
}

std::string set_instead_text(const std::string& option, const std::string& key,
                             const std::string& value) {
  return fmt::format("{} is not an option; config keys are set with --set {}={}", option, key,
                     shell_word(value));
}

// Returns the answer to an option named as in TRL, Transformers or Axolotl, "" for another name:
// the --set, or the sentence about the name if no value or not this one fits a single key.
std::string foreign_option_text(const std::string& option, const std::string& name,
                                const std::string& given) {
  std::string path;
  const std::string hint = foreign_name_hint(name, &path);
  if (hint.empty()) return "";
  // A name with a sentence of its own needs more than its key.
  if (hint != "here it is `" + path + "`")
    return fmt::format("{} is not an option; {}", option, hint);
  const std::string value = value_for(*find_config_field(path), given);
  return value.empty()
             ? fmt::format("{} is not an option; {} (xrun explain {})", option, hint, path)
             : set_instead_text(option, path, value);
}

// Returns the names of the options as they are typed, those of the given subcommand included.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* given : app.get_subcommands()) names = option_names(*given);
  for (const CLI::Option* known : app.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Returns the positional argument of the option's name, "RECIPE" for --recipe, or "".
std::string plain_argument(const CLI::App& app, const std::string& option) {
  std::string upper = option.substr(std::min<size_t>(2, option.size()));
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const CLI::Option* known : app.get_options()) {
    if (known->get_positional() && known->get_name() == upper) return upper;
  }
  return "";
}

// An option as the user wrote it: --max-steps=3 or --max-steps 3.
struct TypedOption {
  std::string option;  // "--max-steps"
  std::string name;    // "max_steps"
  std::string given;   // "3"; "" without a value
  std::string value() const { return given.empty() ? "VALUE" : given; }
};

TypedOption typed_option(const std::string& argument, int argc, char** argv) {
  TypedOption typed;
  const size_t equals = std::min(argument.find('='), argument.size());
  typed.option = argument.substr(0, equals);
  typed.name = typed.option.substr(2);
  std::replace(typed.name.begin(), typed.name.end(), '-', '_');
  if (equals < argument.size()) {
    typed.given = argument.substr(equals + 1);
    return typed;
  }
  // The next word is its value; the parser may have taken that word for the recipe.
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == argument && argv[i + 1][0] != '\0' &&
        !std::string_view(argv[i + 1]).starts_with("--")) {
      typed.given = argv[i + 1];
    }
  }
  return typed;
}

// Returns the answer to an option that names a config key of the recipe, of the engine or, under
// its name, of another library; "" if it names none.
std::string key_text(const TypedOption& typed, const std::vector<std::string>& recipe_keys) {
  const auto& [option, name, given] = typed;
  if (find_config_field(name) == nullptr) {
    const std::string top = name.substr(0, name.find('.'));
    if (std::find(recipe_keys.begin(), recipe_keys.end(), top) != recipe_keys.end()) {
      return set_instead_text(option, name, typed.value());
    }
    if (std::string text = foreign_option_text(option, name, given); !text.empty()) return text;
  }
  const std::string key = key_of_option(name);
  const ConfigField* const field = find_config_field(key);
  if (field == nullptr || field->kind != FieldKind::kTable) {
    return key.empty() ? "" : set_instead_text(option, key, typed.value());
  }
  const auto literal = parse_literal(given);
  const std::string member = meant_member(*field, literal ? literal_json(*literal) : Json(given));
  if (!member.empty()) return set_instead_text(option, member, typed.value());
  return fmt::format("{0} is not an option; `{1}` is a table of the config: xrun explain {1}",
                     option, key);
}

// Returns the answer to a misspelt option: the nearest option or config key.
std::string slip_text(const CLI::App& app, const TypedOption& typed,
                      std::vector<std::string> keys) {
  std::string near = near_option(app, typed.option);
  if (near.empty()) {
    for (const std::string& known : config_field_names("")) keys.push_back(known);
    near = nearest_name(typed.name, keys);
    if (!near.empty()) near = fmt::format("--set {}={}", near, shell_word(typed.value()));
  }
  if (!near.empty())
    return fmt::format("{} is not an option; did you mean {}?", typed.option, near);
  return fmt::format(
      "there is no option {}; xrun explain lists the config keys, which --set key=value sets",
      typed.option);
}
}  // namespace

std::string near_option(const CLI::App& app, const std::string& option) {
  const std::vector<std::string> names = option_names(app);
  if (std::string near = nearest_name(option, names); !near.empty()) return near;
  // Matches the beginning ("--out") or the first word ("--with-weights").
  const size_t dash = option.find('-', 2);
  std::string near;
  for (const std::string& name : names) {
    if (option.size() > 3 && name.starts_with(option)) return name;
    const bool same_word = dash != option.npos && name.starts_with(option.substr(0, dash + 1));
    if (same_word) add_item(near, name, " or ");
  }
  return near;
}

std::string unknown_option_text(const CLI::App& app, int argc, char** argv) {
  // Only commands that take a recipe have --set.
  if (app.get_option_no_throw("--set") == nullptr) return "";
  const std::vector<std::string> rest = app.remaining();
  // CLI11 leaves the "=" of `--set key = value` over.
  if (std::find(rest.begin(), rest.end(), "=") != rest.end()) {
    return "a setting has no blanks around its =: --set key=value";
  }
  const auto found = std::find_if(rest.begin(), rest.end(), [](const std::string& argument) {
    return argument.starts_with("--") && argument.size() > 2;
  });
  if (found == rest.end()) return "";
  const TypedOption typed = typed_option(*found, argc, argv);
  if (typed.option == "--config") {
    return "--config is not an option: a recipe has its settings in its Lua file; --set key=value "
           "changes one";
  }
  const std::vector<std::string> recipe_keys = keys_of_recipe(argc, argv);
  if (std::string text = key_text(typed, recipe_keys); !text.empty()) return text;
  if (const std::string plain = plain_argument(app, typed.option); !plain.empty()) {
    return fmt::format("{} is not an option; {} is a plain argument", typed.option, plain);
  }
  return slip_text(app, typed, recipe_keys);
}

}  // namespace xrun
