// Bad usage ends with status 2, whatever status CLI11 gives it.

#include "tools/commands/command_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "tools/commands/unknown_option.h"

namespace xrun {

namespace {

constexpr int64_t kAnyMachine = 64;  // threads that are bearable on any machine (4 s on two cores)

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

// Returns the short name of an option if the user typed that one, else `name`.
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

// Returns an error of CLI11, such as "--threads: At Most 1 required but received 2", in plain
// words.
std::string plain_parse_error(const CLI::App& app, const std::string& text, int argc, char** argv) {
  const size_t colon = text.find(": ");
  const std::string name = typed_name(app, text.substr(0, colon), argc, argv);
  if (text.ends_with(" missing")) return name + " needs a value";
  if (colon != std::string::npos && text.substr(colon).starts_with(": needs a ")) {
    return name + text.substr(colon + 1);
  }
  // "Could not convert: NAME = VALUE"
  if (const size_t equals = text.rfind(" = "); name == "Could not convert" && equals > colon) {
    const std::string value = text.substr(equals + 3);
    // A whole number that the option's type cannot hold.
    const bool large = whole_number_of(value).has_value();
    return fmt::format("{}: got {}, wanted a {}number", text.substr(colon + 2, equals - colon - 2),
                       value, large ? "smaller " : "");
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

// Help without CLI11's own notation: "INT=6", "TEXT:{cpu,cuda}" and "RUN TEXT x 2 REQUIRED" become
// "N ... (6)", "cpu|cuda" and "RUN". The usage line puts optional arguments into brackets.
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

CLI::Validator share_of_one(double lowest) {
  return CLI::Validator(
      [lowest](std::string& text) {
        double value = 0;
        return CLI::detail::lexical_cast(text, value) && value >= lowest && value <= 1
                   ? std::string()
                   : fmt::format("got {}, wanted a number from {} to 1", text, lowest);
      },
      "");
}

CLI::Validator folder_name() {
  return CLI::Validator(
      [](std::string& text) {
        if (!text.empty() && !text.starts_with("--")) return std::string();
        return fmt::format("needs a folder, got {}", text.empty() ? "an empty name" : text);
      },
      "");
}

void warn_of_threads(int threads) {
  if (threads <= hardware_threads()) return;
  fmt::print(stderr, "xrun: {} threads on a machine that runs {} at once wait for each other\n",
             threads, hardware_threads());
}

}  // namespace xrun
