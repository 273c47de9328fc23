// Each key of the path leads one table deeper into the literals. A missing key is added if the
// engine declares it.

#include "core/config/config_set.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/config/foreign_names.h"
#include "core/config/wide_signs.h"

namespace xrun {
namespace {

// Fills a list with the elements of its default, so that one of them can be set alone.
void fill(Literal& list, const Json& default_value) {
  list.is_table = true;
  for (const Json& element : default_value.as_array()) {
    const std::string key = std::to_string(list.entries.size() + 1);
    list.entries.push_back({.key = key, .element = true, .value = {}});
    list.entries.back().value.scalar = element;
    list.entries.back().value.origin = "default";
  }
}

// Returns the only path that ends in `key`: "optim.lr" for lr; "" if there is none or several.
std::string unique_path(const std::string& key) {
  std::string found;
  for (const ConfigField& field : config_fields()) {
    // --set cannot set a key of every element.
    if (!field.path.ends_with("." + key) || field.path.find("[]") != std::string::npos) continue;
    if (!found.empty()) return "";
    found = field.path;
  }
  return found;
}

// Returns true for a field whose value has no keys of its own.
bool has_no_keys(const ConfigField* field) {
  using K = FieldKind;
  if (field == nullptr) return false;
  return field->kind == K::kText || field->kind == K::kWhole || field->kind == K::kNumber ||
         field->kind == K::kFlag || field->kind == K::kFlagOrText || field->kind == K::kTextOrTable;
}

// Returns a hint at the key that was meant, for a `key` that does not belong to `path`, or "".
std::string other_key_hint(const std::string& path, const std::string& key) {
  if (!path.empty()) {
    // model.dtype, for dtype
    if (find_config_field(key) != nullptr) return fmt::format("; did you mean `{}`?", key);
    // model.path, template.name
    const ConfigField* around = find_config_field(path);
    if (has_no_keys(around)) return fmt::format("; did you mean `{}`?", path);
    // valid.path
    if (key == "path" && find_config_field(path + ".data") != nullptr) {
      return fmt::format("; did you mean `{}.data`?", path);
    }
  }
  // lr, for optim.lr: not "did you mean", since the last word alone is a weak sign.
  const std::string full = unique_path(key);
  if (full.empty()) return "";
  return fmt::format("; there is `{}`; xrun explain {} lists the keys of that name", full, key);
}

// Returns "; data.2 adds the next element" for a number that is not an element of `list`, else "".
std::string next_element_hint(const std::string& path, const Literal& list,
                              const std::string& key) {
  if (key.empty() || key.find_first_not_of("0123456789") != std::string::npos) return "";
  if (key[0] == '0') return fmt::format("; the first element is {}.1", path);
  return fmt::format("; {}.{} adds the next element", path, list.entries.size() + 1);
}

// Throws UsageError for a key that neither the recipe nor the engine has in the table at `path`,
// with the best hint at the one that was meant.
[[noreturn]] void refuse_key(const Literal& table, bool is_list, const std::string& path,
                             const std::string& key, const std::string& text) {
  const std::string inner = path.empty() ? key : path + "." + key;
  std::vector<std::string> known = config_field_names(path);
  for (const Literal::Entry& entry : table.entries) known.insert(known.begin(), entry.key);
  const std::string first = path + ".1." + key;
  const bool of_element = is_list && find_config_field(first) != nullptr;
  const std::string near = did_you_mean(key, known, path.empty() ? "" : path + ".");
  std::string foreign = foreign_name_hint(inner);
  if (foreign.empty()) foreign = foreign_name_hint(key);
  // At the top level another library's name comes before a near one: lora_r, which is near `lora`.
  const bool is_foreign = !foreign.empty() && (path.empty() || near.empty());
  const std::string next = is_list ? next_element_hint(path, table, key) : "";
  std::string hint = !next.empty() ? next
                     : of_element  ? "; elements of a list have numbers: " + first
                     : is_foreign  ? "; " + foreign
                                   : near;
  if (hint.empty()) hint = other_key_hint(path, key);
  throw UsageError(fmt::format("--set {}: there is no key `{}`{}", text, inner, hint));
}

// Returns the entry of `table` that `key` names; adds it if the key is the engine's.
//   walked  the keys that led to the table
//   text    the whole setting, for messages
Literal& step(Literal& table, const std::vector<std::string>& walked, const std::string& key,
              const std::string& text) {
  if (Literal* found = table.find(key)) return *found;
  const std::string path = joined(walked, ".");
  const std::string inner = path.empty() ? key : path + "." + key;
  const ConfigField* around = find_config_field(path);
  const bool list = around != nullptr && (!table.is_table || table.is_list()) &&
                    (around->kind == FieldKind::kList || around->kind == FieldKind::kTexts);
  // The next element may be added, no later one.
  const bool element = list && key == std::to_string(table.entries.size() + 1);
  const bool free = around != nullptr && takes_free_names(*around);
  const ConfigField* field = find_config_field(inner);
  if (field == nullptr && !element && !free) refuse_key(table, list, path, key, text);
  if (!table.is_table) {
    // A new entry, or a value that --set replaces by a table.
    table = Literal{};
    table.is_table = true;
    table.line = kSetLine;
  }
  table.entries.push_back({.key = key, .element = element, .value = {}});
  Literal& made = table.entries.back().value;
  made.line = kSetLine;
  // --set optim.betas.2=0.95 leaves the first element at its default.
  if (field != nullptr && field->kind == FieldKind::kNumbers && !field->default_value.is_null()) {
    fill(made, field->default_value);
  }
  return made;
}

// Returns the type of a literal, for messages.
std::string kind_of(const Literal& literal) {
  if (literal.is_table) return "a table";
  if (literal.scalar.is_bool()) return "true or false";
  return literal.scalar.is_number() ? "a number" : "text";
}

// Returns "; its keys: updates.epochs, updates.groups" for a recipe's own table, else "".
std::string own_keys(const std::string& path, const Literal& table) {
  if (!table.is_table || table.is_list()) return "";
  std::vector<std::string> keys;
  for (const Literal::Entry& entry : table.entries) keys.push_back(path + "." + entry.key);
  return keys.empty() ? "" : "; its keys: " + listed(keys, 8);
}

// Returns the value of a setting. The type of its key decides whether the text is read as a
// literal.
Literal set_value(const ScannedRecipe& recipe, const std::string& path, const Literal& before,
                  const std::string& set) {
  const std::string text = set.substr(set.find('=') + 1);
  const std::optional<Literal> literal = parse_literal(text);
  const bool engine = find_config_field(path.substr(0, path.find('.'))) != nullptr;
  const ConfigField* field = find_config_field(path);
  const bool takes_table = field != nullptr && field->kind == FieldKind::kTextOrTable;
  const bool text_field = field != nullptr && (field->kind == FieldKind::kText ||
                                               (takes_table && !(literal && literal->is_table)));
  const bool wants_text = engine ? text_field : kind_of(before) == "text";
  Literal value;
  // Text needs no quotes: the shell takes them away.
  value.scalar = Json(text);
  // A key that takes text takes any literal as text: --set name=3.
  if (literal && !(wants_text && !literal->scalar.is_string())) value = *literal;
  // The engine's keys are checked against their fields later; a recipe's own key keeps its type.
  if (engine || kind_of(value) == kind_of(before)) return value;
  const std::string wide = wide_setting_hint(text);
  throw UsageError(fmt::format("--set {}: `{}` is {} in {}, got {}{}", set, path, kind_of(before),
                               literal_origin(recipe, before), text.empty() ? "nothing" : text,
                               wide.empty() ? own_keys(path, before) : "; " + wide));
}

// Marks a literal and everything in it as set by --set.
void mark(Literal& literal) {
  literal.line = kSetLine;
  literal.origin.clear();
  for (Literal::Entry& entry : literal.entries) mark(entry.value);
}

void set_literal(const ScannedRecipe& recipe, Literal& root, const std::string& text) {
  // The value may contain further `=`.
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(fmt::format("--set {}: wanted key=value, as in --set beta=0.2", text));
  }
  std::vector<std::string> parts;
  for (size_t at = 0; at <= equals;) {
    const size_t dot = std::min(text.find('.', at), equals);
    parts.push_back(text.substr(at, dot - at));
    at = dot + 1;
  }
  Literal* target = &root;
  std::vector<std::string> walked;
  for (const std::string& key : parts) {
    target = &step(*target, walked, key, text);
    walked.push_back(key);
  }
  // Replaces the whole value, even a table.
  *target = set_value(recipe, joined(walked, "."), *target, text);
  mark(*target);
  // Only one of the two decides the length of a run: the later setting replaces the other.
  const std::string path = joined(walked, ".");
  const std::string replaced = path == "steps" ? "epochs" : path == "epochs" ? "steps" : "";
  std::erase_if(root.entries, [&](const Literal::Entry& entry) { return entry.key == replaced; });
}

}  // namespace

// Settings apply in their order; a later one of a key wins.
void apply_set(const ScannedRecipe& recipe, Literal& root, const std::string& text) {
  try {
    set_literal(recipe, root, text);
  } catch (const UsageError& error) {
    // Only the key is searched: a value may be a file name in any script.
    const std::string hint = wide_setting_hint(text.substr(0, text.find('=')));
    if (hint.empty()) throw;
    throw UsageError(fmt::format("{}; {}", error.what(), hint));
  }
}

std::string literal_origin(const ScannedRecipe& recipe, const Literal& literal) {
  if (literal.line == kSetLine) return "--set";
  if (!literal.origin.empty()) return literal.origin;
  const std::string& file = literal.source == 0
                                ? recipe.file
                                : recipe.bases[static_cast<size_t>(literal.source) - 1].file;
  return fmt::format("{}:{}", file, literal.line);
}

}  // namespace xrun
