// The order of the checks: --set, the engine's names, types and ranges, keys that nothing reads,
// reads without a key, missing keys. The first fault is the error.

#include "core/config/config_check.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config.h"
#include "core/config/config_base.h"
#include "core/config/config_field.h"
#include "core/config/config_set.h"
#include "core/config/excerpt.h"
#include "core/config/foreign_names.h"
#include "core/config/wide_signs.h"

namespace xrun {

namespace {

// Returns "; here it is `optim.lr`" for a name of another library, else "".
std::string foreign_text(std::string_view name) {
  const std::string hint = foreign_name_hint(name);
  return hint.empty() ? "" : "; " + hint;
}

// Returns "; the engine's key of that name is `optim.lr`", else "; here it is `optim.lr`" for a
// name of another library, else "".
std::string elsewhere(std::string_view name) {
  for (const ConfigField& field : config_fields()) {
    // A key of every element of a list is not what a plain key means.
    if (field.path.find("[]") != std::string::npos) continue;
    // The last component of the engine's keys: "lr" for "optim.lr".
    const size_t dot = field.path.rfind('.');
    const std::string last = dot == std::string::npos ? field.path : field.path.substr(dot + 1);
    if (last == name) return fmt::format("; the engine's key of that name is `{}`", field.path);
  }
  return foreign_text(name);
}

class ConfigCheck {
 public:
  ConfigCheck(const ScannedRecipe& recipe, const std::vector<std::string>& sets)
      : recipe_(recipe), root_(recipe.config) {
    root_.is_table = true;
    for (const Literal::Entry& entry : root_.entries) own_.push_back(entry.key);
    if (root_.is_list() && !root_.entries.empty()) {
      fail_line(recipe.config_line, "config", "the config has named keys, not a list");
    }
    // After own_ is complete: suggestions name the keys of the file.
    for (const std::string& text : sets) apply_set(recipe, root_, text);
    if (root_.find(kExtends) != nullptr) {
      throw UsageError("--set extends: the base of a config is in its file; change it there");
    }
  }

  void check() {
    // The engine's own keys first: a slip in a name is reported before it counts as unread.
    for (const Literal::Entry& entry : root_.entries) {
      if (find_config_field(entry.key) != nullptr) check_known(entry.key, entry.value);
    }
    check_reads();
    check_required();
    check_batch();
  }

  Literal& root() { return root_; }

 private:
  [[noreturn]] void fail_line(int line, std::string_view word, const std::string& what) const {
    throw UsageError(fmt::format("{}:{}: {}{}", recipe_.file, line, what,
                                 excerpt_of_word(recipe_.text, line, word)));
  }
  // Reports a value of the recipe, of a base or of --set.
  [[noreturn]] void fail(const Literal& value, std::string_view word,
                         const std::string& what) const {
    if (value.line > 0 && value.source == 0) fail_line(value.line, word, what);
    const bool of_base = value.line > 0 && value.source > 0;
    const auto base = static_cast<size_t>(value.source) - 1;
    throw UsageError(
        fmt::format("{}: {}{}", literal_origin(recipe_, value), what,
                    of_base ? excerpt_of_word(recipe_.bases[base].text, value.line, word) : ""));
  }
  // Reports the table if the file has it, else the first read of it, else the config.
  [[noreturn]] void fail_at(const Literal* table, const std::string& name,
                            const std::string& what) const {
    if (table != nullptr && table->line > 0) fail(*table, name, what);
    const int line = line_of_read(name);
    fail_line(line > 0 ? line : recipe_.config_line, name, what);
  }

  // Any read below the key counts: `cfg.optim.lr` reads `optim`.
  bool is_read(std::string_view key) const { return line_of_read(key) > 0; }

  // ---- the engine's keys: names, types, ranges

  // Returns "; --set data.1.path=pairs.jsonl sets it in the first one" for text in place of a list.
  static std::string element_hint(const std::string& path, const ConfigField& field,
                                  const Literal& value) {
    const std::vector<std::string> keys = config_field_names(path + ".1");
    const bool is_text = value.line == kSetLine && !value.is_table && value.scalar.is_string();
    if (field.kind != FieldKind::kList || keys.empty() || !is_text) return "";
    const std::string& text = value.scalar.as_string();
    if (text.starts_with('{')) {  // data={{path="x.jsonl"}} has lost its quotes
      return fmt::format(
          "; a shell removes quotes, so put the whole setting between single ones: --set "
          "'{}={{ {{ {} = \"...\" }} }}'",
          path, keys[0]);
    }
    return fmt::format("; --set {}.1.{}={} sets it in the first one", path, keys[0],
                       shell_word(text));
  }

  // Returns "; did you mean valid = { fraction = 0.2 }?" for a number or text in place of a table.
  static std::string member_hint(const std::string& path, const ConfigField& field,
                                 const Literal& value) {
    const Json json = literal_json(value);
    if (path == "batch" && !value.is_table) return foreign_text("batch_size");
    const std::string meant = meant_member(field, json);
    if (meant.empty()) return "";
    if (value.line == kSetLine) {
      const std::string text = json.is_string() ? shell_word(json.as_string()) : dump_json(json);
      return fmt::format("; did you mean --set {}={}?", meant, text);
    }
    return fmt::format("; did you mean {} = {{ {} = {} }}?", path, meant.substr(path.size() + 1),
                       dump_json(json));
  }

  // Returns the list that was probably meant by text in its place: { "q_proj", "v_proj" } for
  // q_proj,v_proj and for {q_proj,v_proj}, whose quotes a shell removed; "" if it is not clear.
  static std::string meant_list(const ConfigField& field, std::string_view text) {
    if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
    std::string elements;
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      const std::string element(trimmed(text.substr(0, comma)));
      add_item(elements, field.kind == FieldKind::kTexts ? dump_json(Json(element)) : element);
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    if (elements.empty()) return "";
    const std::string list = "{ " + elements + " }";
    const std::optional<Literal> literal = parse_literal(list);
    return literal && fits(field, literal_json(*literal)) ? list : "";
  }

  // Returns "; did you mean --set 'lora.targets={ "all" }'?" for text in place of a list.
  static std::string list_hint(const std::string& path, const ConfigField& field,
                               const Literal& value) {
    const bool is_list = field.kind == FieldKind::kTexts || field.kind == FieldKind::kNumbers;
    if (!is_list || value.is_table || !value.scalar.is_string()) return "";
    const std::string list = meant_list(field, value.scalar.as_string());
    if (list.empty()) return "";
    return value.line == kSetLine
               ? fmt::format("; did you mean --set {}?", shell_word(path + "=" + list))
               : fmt::format("; did you mean {} = {}?", path.substr(path.rfind('.') + 1), list);
  }

  // Recursive: checks tables and lists of tables to their leaves.
  void check_known(const std::string& path, const Literal& value) {
    const ConfigField* field = find_config_field(path);
    const Json json = literal_json(value);
    if (field != nullptr && !fits(*field, json)) {
      const std::string word = path.substr(path.rfind('.') + 1);
      const std::string wide = json.is_string() ? wide_setting_hint(json.as_string()) : "";
      const std::string hint = !wide.empty() ? "; " + wide
                                             : element_hint(path, *field, value) +
                                                   list_hint(path, *field, value) +
                                                   member_hint(path, *field, value);
      fail(
          value, word,
          fmt::format("{}: got {}, wanted {}{}", path, dump_json(json), wanted_text(*field), hint));
    }
    // Lists of tables have fields of elements, "data[].path", found as "data.1.path".
    const bool elements = field != nullptr && field->kind == FieldKind::kList &&
                          !config_field_names(path + ".1").empty();
    const bool table = field != nullptr && (field->kind == FieldKind::kTable ||
                                            field->kind == FieldKind::kFlagOrTable ||
                                            field->kind == FieldKind::kTextOrTable);
    const bool named = table && !config_field_names(path).empty();
    for (const Literal::Entry& entry : value.entries) {
      const std::string inner = path + "." + entry.key;
      if (elements) {
        check_element(inner, entry.value);
      } else if (named) {
        check_name(path, entry);
        check_known(inner, entry.value);
      }
    }
  }

  void check_element(const std::string& path, const Literal& element) {
    // { } is an empty table of named keys as well as an empty list.
    if (!element.is_table || (element.is_list() && !element.entries.empty())) {
      fail(element, "",
           fmt::format("{}: got {}, wanted a table, {}", path, dump_json(literal_json(element)),
                       element_example(path)));
    }
    for (const Literal::Entry& entry : element.entries) {
      check_name(path, entry);
      check_known(path + "." + entry.key, entry.value);
    }
    for (const std::string& name : config_field_names(path)) {
      if (find_config_field(path + "." + name)->required && element.find(name) == nullptr) {
        fail(element, "", fmt::format("{} has no `{}`", path, name));
      }
    }
  }

  // Hints at the likeliest slip: a misspelling, another library's name, a key one level too deep.
  void check_name(const std::string& path, const Literal::Entry& entry) {
    const std::string inner = path + "." + entry.key;
    if (find_config_field(inner) != nullptr) return;
    std::string hint = did_you_mean(entry.key, config_field_names(path), path + ".");
    if (hint.empty()) hint = foreign_text(inner);
    if (hint.empty()) hint = elsewhere(entry.key);
    if (hint.empty() && is_read(entry.key)) {
      hint = fmt::format("; `{}.{}` is read, so it belongs one level up", recipe_.config_name,
                         entry.key);
    }
    fail(entry.value, entry.key, fmt::format("there is no key `{}`{}", inner, hint));
  }

  // ---- the recipe's own keys: each key is read, each read has a key

  void check_reads() {
    // Keys that are read, but neither given nor the engine's: a key that is given but unread may be
    // one of them, misspelt.
    std::vector<std::string> missing;
    for (const ConfigRead& read : recipe_.reads) {
      const std::string& key = read.path[0];
      const bool known = root_.find(key) != nullptr || find_config_field(key) != nullptr;
      if (!known) missing.push_back(key);
    }
    for (const Literal::Entry& entry : root_.entries) {
      if (find_config_field(entry.key) != nullptr || is_read(entry.key)) continue;
      // A base serves several recipes, so one need not read all of it.
      if (entry.value.source > 0 || !entry.value.origin.empty()) continue;
      fail(entry.value, entry.key, unread(entry, missing));
    }
    for (const ConfigRead& read : recipe_.reads) check_read(read);
  }

  // Names the read that probably means the key.
  std::string unread(const Literal::Entry& entry, const std::vector<std::string>& missing) const {
    std::string near = nearest_name(entry.key, missing);
    // One key too many and one too few are probably one key with two names.
    if (near.empty() && missing.size() == 1) near = missing[0];
    if (!near.empty()) {
      for (const ConfigRead& read : recipe_.reads) {
        if (read.path[0] != near) continue;
        return fmt::format("`{}` is never read; line {} reads `{}.{}`", entry.key, read.line,
                           recipe_.config_name, near);
      }
    }
    // A known name before a near one: lora_r is another library's, and near `lora`.
    std::string hint = foreign_text(entry.key);
    if (hint.empty()) hint = did_you_mean(entry.key, config_field_names(""));
    if (hint.empty()) hint = elsewhere(entry.key);
    return fmt::format("`{}` is never read: no line says `{}.{}`{}", entry.key, recipe_.config_name,
                       entry.key, hint);
  }

  void check_read(const ConfigRead& read) {
    const std::string full = recipe_.config_name + "." + joined(read.path, ".");
    const std::string& key = read.path[0];
    if (root_.find(key) == nullptr && find_config_field(key) == nullptr) {
      std::vector<std::string> known = config_field_names("");
      known.insert(known.begin(), own_.begin(), own_.end());
      fail_line(read.line, key,
                fmt::format("`{}.{}` is read, but the config has no `{}`{}", recipe_.config_name,
                            key, key, did_you_mean(key, known, recipe_.config_name + ".")));
    }
    if (read.assigned) {
      fail_line(read.line, read.path.back(),
                fmt::format("`{}` is assigned, but the config is read-only: {}", full,
                            read_only_hint(joined(read.path, "."), "VALUE")));
    }
    const ConfigField* field = find_config_field(key);
    // The recipe's own tables may have any member.
    if (read.path.size() < 2 || field == nullptr || field->kind != FieldKind::kTable) return;
    const std::vector<std::string> names = config_field_names(key);
    if (std::find(names.begin(), names.end(), read.path[1]) != names.end()) return;
    fail_line(
        read.line, read.path[1],
        fmt::format("`{}` is read, but `{}` has no `{}`{}", full, key, read.path[1],
                    did_you_mean(read.path[1], names, recipe_.config_name + "." + key + ".")));
  }

  // ---- required keys

  int line_of_read(std::string_view key) const {
    for (const ConfigRead& read : recipe_.reads) {
      if (read.path[0] == key) return read.line;
    }
    return 0;
  }

  void check_required() {
    for (const ConfigField& field : config_fields()) {
      // Fields of elements were checked with their elements.
      if (!field.required || field.path.find('[') != std::string::npos) continue;
      const size_t dot = field.path.find('.');
      const std::string top = field.path.substr(0, dot);
      const Literal* table = root_.find(top);
      const bool given =
          dot == std::string::npos
              ? table != nullptr
              : table != nullptr && table->find(field.path.substr(dot + 1)) != nullptr;
      // A table that the recipe neither reads nor gives may be missing.
      const bool wanted = is_read(top) || (dot != std::string::npos && table != nullptr);
      if (given || !wanted) continue;
      // The table's line, else the first read of it, else the config itself.
      fail_at(table, top,
              fmt::format("`{}` has no value: {} Add it to the config, or --set {}=...", field.path,
                          field.doc, field.path));
    }
  }

  // A step has one count for each unit of its data sets; at least one must be given.
  void check_batch() {
    const Literal* batch = root_.find("batch");
    if (batch == nullptr && !is_read("batch")) return;
    for (const std::string& name : batch_counts()) {
      if (batch != nullptr && batch->find(name) != nullptr) return;
    }
    fail_at(batch, "batch",
            "`batch` does not say how much a step takes: add one of pairs, sequences, prompts, "
            "groups and tokens to it, or --set batch.pairs=...");
  }

  const ScannedRecipe& recipe_;
  Literal root_;
  std::vector<std::string> own_;
};

}  // namespace

Literal checked_config(const ScannedRecipe& recipe, const std::vector<std::string>& sets) {
  ConfigCheck config(recipe, sets);
  config.check();
  return std::move(config.root());
}

}  // namespace xrun
