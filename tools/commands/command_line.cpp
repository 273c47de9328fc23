// Bad usage ends with status 2, whatever status CLI11 gives it.

#include "tools/commands/command_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/config/config_base.h"
#include "core/config/config_field.h"
#include "core/config/config_scan.h"
#include "core/config/foreign_names.h"

namespace xrun {

namespace {

constexpr uint64_t kMostScannedBytes = uint64_t{1} << 20;  // of a recipe, for a hint
constexpr int64_t kAnyMachine = 64;  // threads that even one core gets through (4 s on two)

int64_t hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

// CLI11's own range checks print their limits as doubles with 309 digits.
CLI::Validator whole_number_within(int64_t lowest, int64_t highest, const std::string& wanted) {
  return CLI::Validator(
      [=](std::string& text) {
        const auto value = whole_number_of(text);
        return value && *value >= lowest && *value <= highest
                   ? std::string()
                   : fmt::format("got {}, wanted {}", text, wanted);
      },
      "");
}

// The engine's key of an option: "optim.lr" for lr or optim.lr; "" if there is none or there are
// several.
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

// The options' names, as they are typed; those of the given subcommand too.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* given : app.get_subcommands()) names = option_names(*given);
  for (const CLI::Option* known : app.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// "RECIPE" for --recipe, or "".
std::string plain_argument(const CLI::App& app, const std::string& option) {
  std::string upper = option.substr(std::min<size_t>(2, option.size()));
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const CLI::Option* known : app.get_options()) {
    if (known->get_positional() && known->get_name() == upper) return upper;
  }
  return "";
}

// "--lr is not an option; ..." for the first unknown option of a command that takes --set, or "".
std::string unknown_option_text(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> rest = app.remaining();
  // CLI11 leaves the "=" of `--set key = value` over.
  if (app.get_option_no_throw("--set") != nullptr &&
      std::find(rest.begin(), rest.end(), "=") != rest.end()) {
    return "a setting has no blanks around its =: --set key=value";
  }
  const auto found = std::find_if(rest.begin(), rest.end(), [](const std::string& argument) {
    return argument.starts_with("--") && argument.size() > 2;
  });
  // Only commands that take a recipe have --set.
  if (found == rest.end() || app.get_option_no_throw("--set") == nullptr) return "";
  const size_t equals = std::min(found->find('='), found->size());
  const std::string option = found->substr(0, equals);
  if (option == "--config") {
    return "--config is not an option: a recipe has its settings in its Lua file; --set key=value "
           "changes one";
  }
  // The word after it on the command line; it may have been taken for the recipe.
  std::string after;
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == *found && argv[i + 1][0] != '\0' &&
        !std::string_view(argv[i + 1]).starts_with("--")) {
      after = argv[i + 1];
    }
  }
  const std::string given = equals < found->size() ? found->substr(equals + 1) : after;
  const std::string value = given.empty() ? "VALUE" : given;
  std::string name = option.substr(2);
  std::replace(name.begin(), name.end(), '-', '_');
  // A key of the recipe, then of the engine, then of another library.
  std::vector<std::string> keys = keys_of_recipe(argc, argv);
  const bool is_engine = find_config_field(name) != nullptr;
  const bool is_recipe =
      std::find(keys.begin(), keys.end(), name.substr(0, name.find('.'))) != keys.end();
  if (!is_engine && is_recipe) return set_instead_text(option, name, value);
  if (!is_engine) {
    if (std::string text = foreign_option_text(option, name, given); !text.empty()) return text;
  }
  const std::string key = key_of_option(name);
  const ConfigField* const field = find_config_field(key);
  if (field != nullptr && field->kind == FieldKind::kTable) {
    const auto literal = parse_literal(given);
    const std::string member = meant_member(*field, literal ? literal_json(*literal) : Json(given));
    if (!member.empty()) return set_instead_text(option, member, value);
    return fmt::format("{0} is not an option; `{1}` is a table of the config: xrun explain {1}",
                       option, key);
  }
  if (!key.empty()) return set_instead_text(option, key, value);
  if (const std::string plain = plain_argument(app, option); !plain.empty()) {
    return fmt::format("{} is not an option; {} is a plain argument", option, plain);
  }
  std::string near = near_option(app, option);
  if (near.empty()) {
    for (const std::string& known : config_field_names("")) keys.push_back(known);
    near = nearest_name(name, keys);
    if (!near.empty()) near = fmt::format("--set {}={}", near, shell_word(value));
  }
  return near.empty() ? fmt::format(
                            "there is no option {}; xrun explain lists the config keys, "
                            "which --set key=value sets",
                            option)
                      : fmt::format("{} is not an option; did you mean {}?", option, near);
}

// Names the first extra word, and suggests what the user may have meant.
std::string extra_word_text(const CLI::App& app, int argc, char** argv) {
  // true: of the subcommands too.
  std::vector<std::string> rest = app.remaining(true);
  if (rest.empty()) return "";
  const auto option = std::find_if(rest.begin(), rest.end(), [](const std::string& word) {
    return word.starts_with("-") && word.size() > 1;
  });
  if (option != rest.end()) {
    const std::string near = near_option(app, *option);
    return fmt::format("{} is not an option of {}{}", *option, app.get_name(),
                       near.empty() ? "" : "; did you mean " + near + "?");
  }
  const std::string& word = rest.front();
  if (app.get_option_no_throw("--set") != nullptr) {
    for (int i = 2; i < argc; ++i) {
      // `--set beta 0.2`
      const bool valueless = std::string_view(argv[i - 2]) == "--set" &&
                             std::string_view(argv[i - 1]).find('=') == std::string_view::npos;
      if (word != argv[i] || !valueless) continue;
      return fmt::format("a setting is one word: --set {}={}", argv[i - 1], shell_word(word));
    }
    // `beta=0.2` without --set
    if (word.find('=') != std::string::npos) {
      return fmt::format("config keys are set with --set {}", shell_word(word));
    }
  }
  std::vector<std::string> subcommands;
  for (const CLI::App* one : app.get_subcommands({})) subcommands.push_back(one->get_name());
  // A mistyped subcommand.
  if (!subcommands.empty() && app.get_subcommands().empty()) {
    const std::string near = nearest_name(word, subcommands);
    return fmt::format("{} has no subcommand {}{}", app.get_name(), word,
                       near.empty() ? "" : "; did you mean " + near + "?");
  }
  return fmt::format("{} is one argument too many", word);
}

// The short name of an option if it is the one on the command line, else `name`.
std::string typed_name(const CLI::App& app, const std::string& name, int argc, char** argv) {
  const CLI::Option* const option = app.get_option_no_throw(name);
  if (option == nullptr || option->get_snames().empty()) return name;
  const auto typed = [&](const std::string& word) {
    return std::any_of(argv + 1, argv + argc,
                       [&](std::string_view argument) { return argument.starts_with(word); });
  };
  const std::string brief = "-" + option->get_snames().front();
  return typed(brief) && !typed(name) ? brief : name;
}

// "--threads: At Most 1 required but received 2", as CLI11 says it, in plain words.
std::string plain_parse_error(const CLI::App& app, const std::string& text, int argc, char** argv) {
  const size_t colon = text.find(": ");
  const std::string name = typed_name(app, text.substr(0, colon), argc, argv);
  if (text.ends_with(" missing")) return name + " needs a value";
  // "Could not convert: NAME = VALUE"
  if (const size_t equals = text.rfind(" = "); name == "Could not convert" && equals > colon) {
    return fmt::format("{}: got {}, wanted a number", text.substr(colon + 2, equals - colon - 2),
                       text.substr(equals + 3));
  }
  // "NAME: VALUE not in {A,B}"
  if (const size_t set = text.find(" not in {"); set != std::string::npos && set > colon) {
    std::string values = text.substr(set + 9, text.size() - set - 10);
    for (size_t at = 0; (at = values.find(',', at)) != std::string::npos; at += 2) {
      values.insert(at + 1, " ");
    }
    return fmt::format("{}: got {}, wanted one of {}", name,
                       text.substr(colon + 2, set - colon - 2), values);
  }
  for (const auto& [of_parser, plain] :
       {std::pair("At Most ", "at most "), std::pair("At least ", "at least ")}) {
    const size_t begin = text.find(of_parser);
    const size_t middle = text.find(" required but received ");
    if (begin == std::string::npos || middle == std::string::npos || middle < begin) continue;
    const size_t number = begin + std::string_view(of_parser).size();
    // CLI11 says "at least" of an option that takes a fixed number of values.
    const CLI::Option* const option = app.get_option_no_throw(name);
    const bool exactly = option != nullptr && option->get_expected_min() > 1 &&
                         option->get_expected_min() == option->get_expected_max();
    const std::string got =
        text.substr(middle + std::string_view(" required but received ").size());
    const std::string wanted = text.substr(number, middle - number);
    if (exactly) return fmt::format("got {} {}, wanted {}", got, name, wanted);
    // One value each time: the limit is on how often the option is given.
    if (option != nullptr && option->get_expected_max() == 1) {
      return fmt::format("{} is given {}", name, got == "2" ? "twice" : got + " times");
    }
    return fmt::format("{}: got {}, wanted {}{}", name, got, plain, wanted);
  }
  return colon == std::string::npos ? text : name + text.substr(colon);
}

// Help without the parser's own notation: "INT=6", "TEXT:{cpu,cuda}" and "RUN TEXT x 2 REQUIRED"
// become "N ... (6)", "cpu|cuda" and "RUN". A positional argument that is not required has brackets
// in the usage line.
class PlainFormatter : public CLI::Formatter {
 public:
  explicit PlainFormatter(const CLI::Formatter& like) : CLI::Formatter(like) {}

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_size() == 0) return "";
    std::string type = option->get_type_name();
    const bool whole = type == "INT" || type == "UINT";
    // "TEXT:{cpu,cuda}" of a check for members.
    if (const size_t members = type.find(":{"); members != std::string::npos) {
      type = type.substr(members + 2, type.size() - members - 3);
      std::replace(type.begin(), type.end(), ',', '|');
    }
    std::string text = " " + (whole ? "N" : type == "FLOAT" ? "NUMBER" : type);
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
    return text;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (!option->get_positional() && option->get_required()) text += "; required";
    const std::string& value = option->get_default_str();
    return value.empty() || text.ends_with(")") ? text : fmt::format("{} ({})", text, value);
  }
  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = make_option_name(option, true);
    std::string text = name;
    if (option->get_expected_max() >= CLI::detail::expected_max_vector_size) {
      text += "...";
    } else {
      for (int i = 1; i < option->get_expected_max(); ++i) text += " " + name;
    }
    return option->get_required() ? text : "[" + text + "]";
  }
};

void print_usage_error(const std::string& text) {
  fmt::print(stderr, "xrun: {}\nRun with --help for more information.\n", text);
}

}  // namespace

std::string near_option(const CLI::App& app, const std::string& option) {
  const std::vector<std::string> names = option_names(app);
  if (std::string near = nearest_name(option, names); !near.empty()) return near;
  // Its beginning ("--out"), or its first word ("--with-weights").
  const size_t dash = option.find('-', 2);
  std::string near;
  for (const std::string& name : names) {
    if (option.size() > 3 && name.starts_with(option)) return name;
    const bool same_word = dash != option.npos && name.starts_with(option.substr(0, dash + 1));
    if (same_word) add_item(near, name, " or ");
  }
  return near;
}

std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  // Subcommands have formatters of their own.
  if (const auto* usual = dynamic_cast<const CLI::Formatter*>(app.get_formatter().get())) {
    const auto plain = std::make_shared<PlainFormatter>(*usual);
    app.formatter(plain);
    for (CLI::App* one : app.get_subcommands({})) one->formatter(plain);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    std::string text = unknown_option_text(app, argc, argv);
    if (text.empty()) text = extra_word_text(app, argc, argv);
    print_usage_error(text);
    return 2;
  } catch (const CLI::RequiredError& error) {
    std::string text = extra_word_text(app, argc, argv);  // a mistyped subcommand
    if (text.empty()) text = error.what();
    if (text.starts_with("A subcommand")) text = "a subcommand is missing";
    std::string usage = app.help();
    usage = usage.substr(std::min(usage.find("Usage: "), usage.size()));
    print_usage_error(fmt::format("{}\n{}", text, usage.substr(0, usage.find('\n'))));
    return 2;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    print_usage_error(plain_parse_error(app, error.what(), argc, argv));
    return 2;
  }
  return std::nullopt;
}

CLI::Validator whole_number(int64_t lowest) {
  return whole_number_within(lowest, std::numeric_limits<int64_t>::max(),
                             fmt::format("a whole number of at least {}", lowest));
}

int64_t most_threads() { return std::max(kAnyMachine, 4 * hardware_threads()); }

CLI::Validator thread_count() {
  const int64_t highest = most_threads();
  return whole_number_within(
      1, highest,
      fmt::format("a whole number from 1 to {}; this machine runs {} at once", highest,
                  hardware_threads()));
}

void warn_of_threads(int threads) {
  if (threads <= hardware_threads()) return;
  fmt::print(stderr, "xrun: {} threads on a machine that runs {} at once wait for each other\n",
             threads, hardware_threads());
}

}  // namespace xrun
