// xrun explain prints the documentation of a command, an option of a run, a config key, a Lua name,
// an operator, a recipe, a template or a term (explain_terms.h).

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/config/config_where.h"
#include "core/config/foreign_names.h"
#include "core/console/terminal/console.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/run/resumed_run.h"
#include "core/text/chat/chat_template.h"
#include "lua/api/api_text.h"
#include "lua/bind/recipe_text.h"
#include "lua/prompt/prompt_verbs.h"
#include "tools/commands/command_line.h"
#include "tools/commands/command_names.h"
#include "tools/commands/engine/bundle_arguments.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/explain_terms.h"
#include "tools/commands/engine/recipe_arguments.h"
#include "tools/commands/engine/starter_files.h"
#include "tools/commands/trust_arguments.h"
#include "tools/commands/unknown_option.h"

namespace xrun {

namespace {

// Returns a line with one blank for each run of them.
std::string without_columns(std::string_view line) {
  std::string out;
  for (const char c : line) {
    if (c != ' ' || !out.ends_with(' ')) out += c;
  }
  return out;
}

// Returns the lines of a text, without their ends.
std::vector<std::string_view> lines_of_text(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Returns the text after the last dot, colon or slash: "lr" of "optim.lr" and of "train/lr".
std::string last_part(const std::string& name) { return name.substr(name.find_last_of(".:/") + 1); }

// Returns the keys that shipped recipes set, as "beta = 0.1," does.
std::vector<std::string> recipe_keys() {
  std::vector<std::string> keys;
  for (const std::string& recipe : starter_recipes()) {
    const auto files = starter_files(recipe);
    if (files.empty()) continue;
    for (const std::string_view whole : lines_of_text(files.front().second)) {
      const std::string_view line = trimmed(whole);
      const size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
      const bool sets =
          end != 0 && end != std::string_view::npos && trimmed(line.substr(end)).starts_with("= ");
      if (sets && whole.starts_with("  ")) keys.emplace_back(line.substr(0, end));
    }
  }
  return keys;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const CommandName& command : kCommandNames) names.emplace_back(command.name);
  for (const ConfigField& field : config_fields()) names.push_back(field.path);
  for (const DocEntry& entry : doc_entries()) {
    if (entry.kind != DocKind::kMetamethod) names.push_back(entry.name);
  }
  for (const ExplainedTerm& term : explained_terms()) names.push_back(term.name);
  for (std::string& key : recipe_keys()) names.push_back(std::move(key));
  return names;
}

// Returns the full names that end in `name`, or else the name with the most similar spelling.
std::string meant(const std::string& name) {
  const std::vector<std::string> names = known_names();
  std::string found;
  for (const std::string& full : names) {
    if (last_part(full) == name) add_item(found, full);
  }
  if (!found.empty()) return found;
  found = nearest_name(name, names);
  if (!found.empty()) return found;
  std::vector<std::string> parts;
  for (const std::string& full : names) parts.push_back(last_part(full));
  const std::string part = nearest_name(name, parts);
  const auto at = std::find(parts.begin(), parts.end(), part);
  return part.empty() ? "" : names[static_cast<size_t>(at - parts.begin())];
}

// Returns the line of `xrun help` for a command, or "".
std::string explain_command(const std::string& name) {
  const CommandName* command = find_command(name);
  return command == nullptr ? ""
                            : fmt::format("xrun {}{}{}: {}\n  `xrun {} --help` lists its options\n",
                                          command->name, command->arguments.empty() ? "" : " ",
                                          command->arguments, command->summary, command->name);
}

// Returns the help of an option of a run, "--resume", or "".
std::string explain_option(const std::string& name) {
  RecipeOptions options;
  std::optional<int64_t> repl_at;
  CLI::App app;
  add_run_arguments(app, options, repl_at);
  const CLI::Option* option = name.starts_with("--") ? app.get_option_no_throw(name) : nullptr;
  return option == nullptr ? ""
                           : fmt::format("{}, an option of xrun RECIPE.lua: {}\n", name,
                                         option->get_description());
}

// Returns the head comment of a shipped recipe ("grpo", "grpo.lua", "recipes/grpo.lua") and the
// commands that run and copy it, or "".
std::string explain_recipe(const std::string& name) {
  const std::string stem = std::filesystem::path(name).stem().string();
  const std::vector<std::string> known = starter_recipes();
  if (std::find(known.begin(), known.end(), stem) == known.end()) return "";
  std::string text;
  const auto files = starter_files(stem);
  for (const std::string_view line : lines_of_text(files.front().second)) {
    if (!line.starts_with("--")) break;
    text += fmt::format("  {}\n", trimmed(line.substr(2)));
  }
  return fmt::format(
      "recipes/{0}.lua, a recipe:\n{1}  xrun recipes/{0}.lua runs it; xrun init DIR --recipe {0} "
      "copies it with its data\n",
      stem, text);
}

// Returns the lines of the shipped recipes that set the key (those with a comment, if there are
// any), or define a member of a table by that name below a comment ("ipo" of pair_losses.lua);
// or "".
std::string explain_recipe_key(const std::string& key) {
  std::string keys, plain, members;
  for (const std::string& recipe : starter_recipes()) {
    const auto files = starter_files(recipe);
    if (files.empty()) continue;
    std::string above;
    for (const std::string_view whole : lines_of_text(files.front().second)) {
      const std::string_view line = trimmed(whole);
      const size_t equals = line.find_first_of(" =");
      if (line.substr(0, equals) == key && equals != std::string_view::npos) {
        // NAME = function, below a comment.
        if (line.substr(equals).find("= function") < 3 && above.starts_with("--")) {
          members += fmt::format("  recipes/{}.lua: {}\n    {}\n", recipe, above, line);
        } else if (line.find(" -- ") != std::string_view::npos) {
          // A comment on the line explains the key; other lines only show a value.
          keys += fmt::format("  recipes/{}.lua: {}\n", recipe, without_columns(line));
        } else if (line.ends_with(',')) {
          plain += fmt::format("  recipes/{}.lua: {}\n", recipe, without_columns(line));
        }
      }
      above = line;
    }
  }
  if (keys.empty()) keys = plain;
  std::string text;
  if (!keys.empty()) text += fmt::format("{}, a key of recipes:\n{}", key, keys);
  if (!members.empty()) text += fmt::format("{}, defined in recipes:\n{}", key, members);
  return text;
}

// Returns the documentation of the functions that take an option of this name ("on_error"), or "".
std::string explain_function_option(const std::string& name) {
  constexpr size_t kExplained = 2;
  std::vector<std::string> takers;
  for (const DocEntry& entry : doc_entries()) {
    const bool takes =
        std::any_of(entry.parameters.begin(), entry.parameters.end(), [&](const LuaParameter& one) {
          const std::vector<std::string> keys = option_keys(one);
          return std::find(keys.begin(), keys.end(), name) != keys.end();
        });
    if (takes) takers.push_back(entry.name);
  }
  if (takers.empty()) return "";
  std::string text = fmt::format("{}, an option of {}\n", name, listed(takers, takers.size()));
  if (takers.size() > kExplained) {
    return text + fmt::format("  see xrun explain {}\n", takers.front());
  }
  for (const std::string& taker : takers) text += explain(taker);
  return text;
}

// Returns the use of a built-in chat template, or "".
std::string explain_template(const std::string& name) {
  const std::vector<std::string> known = builtin_template_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return "";
  return fmt::format(
      "{0}, a built-in chat template: --set template={0}; xrun render --template {0} shows a row "
      "in it (docs/templates.md)\n",
      name);
}

// Returns the documentation of a name that no command, option, key or Lua name has: a recipe, a
// recipe's own key, an option of a function ("on_error"), a template; or "".
std::string explain_other(const std::string& name) {
  std::string text = explain_recipe(name);
  text += explain_template(name);
  // In "sampling.samples" the table is a key of recipes, the rest an option.
  const size_t dot = name.find('.');
  const bool dotted = dot != std::string::npos && text.empty();
  if (dotted) {
    const std::string option = explain_function_option(name.substr(dot + 1));
    // Without it the last part is unknown, and the table's line would explain something else.
    return option.empty() ? "" : explain_recipe_key(name.substr(0, dot)) + option;
  }
  text += explain_recipe_key(name);
  // `lr` is more likely optim.lr (explain_nested_keys) than an option of adamw:step. The fields of
  // kd and sampling are options of functions themselves.
  const std::vector<ConfigField>& fields = config_fields();
  const bool ends_key = std::any_of(fields.begin(), fields.end(), [&](const ConfigField& field) {
    return last_part(field.path) == name && !field.path.starts_with("kd.") &&
           !field.path.starts_with("sampling.");
  });
  return ends_key ? text : text + explain_function_option(name);
}

// Returns the documentation of the config keys inside tables that end in `name` ("lr"), or "".
std::string explain_nested_keys(const std::string& name) {
  std::string text;
  for (const ConfigField& field : config_fields()) {
    if (field.path != name && last_part(field.path) == name) text += explain(field.path);
  }
  return text;
}

// Prints the origin of a value in a recipe's file or a bundle, which is read, not run.
void explain_where(const std::string& key, const std::string& file, std::vector<std::string> sets) {
  RecipeOptions options;
  options.recipe = file;
  if (is_bundle_name(file)) {
    options = unchecked_bundle(std::move(options));
    sets = joined_sets(options.sets, sets);
  }
  const ScannedRecipe recipe = scan_recipe_of(options, read_recipe(options));
  fmt::print("{}", shown_text(where_text(recipe, sets, key)));
}

// Returns a line for every name that can be explained, with the beginning of its documentation.
std::string all_names() {
  TextTable table({"name", "is"});
  for (const CommandName& command : kCommandNames) {
    table.add({"xrun " + std::string(command.name), std::string(command.summary)});
  }
  for (const ConfigField& field : config_fields()) table.add({field.path, field.doc});
  for (const DocEntry& entry : doc_entries()) {
    if (entry.kind != DocKind::kMetamethod) table.add({entry.name, entry.doc});
  }
  for (const ExplainedTerm& term : explained_terms()) table.add({term.name, term.meaning});
  return table.text(console_traits(STDOUT_FILENO).width);
}

// Returns the documentation of a name in any of its spellings. Throws UsageError if there is none.
std::string explanation(std::string name) {
  // Options come first: "--resume" is not a key.
  std::string text = explain_option(name);
  if (!text.empty()) return text;
  if (name.starts_with("--")) {
    name.erase(0, 2);
    std::replace(name.begin(), name.end(), '-', '_');
  }
  // data[i].fields and data[1].fields are data[].fields.
  const size_t open = name.find('['), close = name.find(']');
  if (open != std::string::npos && close != std::string::npos && open < close) {
    name.erase(open + 1, close - open - 1);
  }
  // Takes data.path, without the number of the source, for data[].path.
  for (const std::string_view list : {"data.", "mixture.stages."}) {
    if (!name.starts_with(list) || find_config_field(name) != nullptr) continue;
    name.insert(list.size() - 1, "[]");
  }
  text = explain_command(name);
  // A name of another program is answered with ours.
  std::string foreign, path;
  if (find_config_field(name) == nullptr) {
    foreign = foreign_name_hint(name, &path);
    if (!foreign.empty()) {
      text += fmt::format("{} of TRL, Transformers or Axolotl: {}\n", name, foreign);
      text += path.empty() ? explain_other(name) : explain(path);
    }
  }
  text += explain(name);
  if (text.empty()) text = explain_other(name);
  text += explain_term(name);
  // Several names have a key of the same last part: xrun.keep and data[].keep.
  if (path.empty() && find_config_field(name) == nullptr) text += explain_nested_keys(name);
  if (text.empty()) text = explain_option("--" + name);
  if (text.empty()) {
    const std::string near = meant(name);
    throw UsageError(
        fmt::format("unknown key or name \"{}\"{}; xrun explain lists all; docs/coming-from.md has "
                    "the terms of TRL, and a recipe documents its own keys",
                    name, near.empty() ? "" : fmt::format(" (did you mean {}?)", near)));
  }
  return text;
}

}  // namespace

int command_explain(int argc, char** argv) {
  CLI::App app(
      "Prints the documentation of a command (inspect), a config key (optim.lr), a Lua name "
      "(xrun.policy, Policy:logprob), an operator (log_sigmoid), a recipe (grpo) or its keys "
      "(beta), a metric (train/loss), a law of templates (prefix) or a reason to drop a row "
      "(too_long); without a name, lists all",
      "xrun explain");
  std::string name, where;
  std::vector<std::string> sets;
  app.add_option("--where", where,
                 "print where a value of a recipe's or bundle's config comes from, with what it "
                 "replaces: --where optim.lr RECIPE.lua")
      ->type_name("KEY");
  // Without --where, `xrun explain --set` explains that option of a run.
  const bool asks_where = std::any_of(argv + 1, argv + argc, [](const char* argument) {
    return std::string_view(argument).starts_with("--where");
  });
  if (asks_where) {
    app.add_option("--set", sets, "a config key, as of a run")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
  }
  app.add_option("NAME", name, "a command, an option, or a key or name as a recipe writes it");
  app.allow_extras();  // an option to explain is none of this command
  add_trust_arguments(app);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (!where.empty()) {
    if (name.empty()) throw UsageError("--where needs a recipe: --where optim.lr RECIPE.lua");
    explain_where(where, name, sets);
    return 0;
  }
  const std::vector<std::string> more = app.remaining();
  if (more.size() + (name.empty() ? 0 : 1) > 1) {
    const std::string near = more.front().starts_with("--") ? near_option(app, more.front()) : "";
    throw UsageError("xrun explain takes one name" +
                     (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  if (!more.empty()) name = more.front();
  register_docs();
  if (name.empty()) {
    fmt::print("{}", all_names());
    return 0;
  }
  fmt::print("{}", explanation(name));
  return 0;
}

}  // namespace xrun
