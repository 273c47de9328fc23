// Walks the chain of bases from the recipe on; each base fills in the values that the configs
// before it leave out, so the nearest value wins.

#include "core/config/config_base.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/bundle/bundle_file.h"
#include "core/config/config_field.h"
#include "core/config/config_set.h"
#include "core/config/excerpt.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// A hand-written file; anything larger is a mistaken path.
constexpr uint64_t kMostBaseBytes = uint64_t{16} << 20;

std::string type_of(const Literal& value) {
  if (value.is_table && value.entries.empty()) return "an empty table";
  if (value.is_table) return value.is_list() ? "a list" : "a table of named keys";
  if (value.scalar.is_bool()) return "true or false";
  return value.scalar.is_number() ? "a number" : "text";
}

// The engine's fields that take values of two types; their own check is stricter.
bool takes_two_types(const std::string& path) {
  const ConfigField* field = find_config_field(path);
  return field != nullptr &&
         (field->kind == FieldKind::kFlagOrText || field->kind == FieldKind::kFlagOrTable);
}

bool same_type(const Literal& a, const Literal& b) {
  if (a.is_table != b.is_table) return false;
  // { } is an empty list as well as an empty table.
  if (a.is_table) return a.entries.empty() || b.entries.empty() || a.is_list() == b.is_list();
  return type_of(a) == type_of(b);
}

// Converts a bundle's settings to a literal.
Literal literal_of(const Json& value, const std::string& path,
                   const std::function<std::string(const std::string&)>& origin) {
  Literal literal;
  literal.origin = origin(path);
  const auto add = [&](const std::string& key, bool element, const Json& member) {
    const std::string inner = path.empty() ? key : path + "." + key;
    literal.entries.push_back(
        {.key = key, .element = element, .value = literal_of(member, inner, origin)});
  };
  literal.is_table = value.is_array() || value.is_object();
  if (value.is_array()) {
    for (const Json& member : value.as_array()) {
      add(std::to_string(literal.entries.size() + 1), true, member);
    }
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.as_object()) add(key, false, member);
  } else {
    literal.scalar = value;
  }
  return literal;
}

// One config of the chain, and the line that extends the next one.
struct ChainLink {
  std::string file;       // as messages name it
  std::string canonical;  // "" for a bundle, which ends the chain
  int line = 0;
};

class BaseMerge {
 public:
  BaseMerge(ScannedRecipe& recipe, const LocalPath& local) : recipe_(recipe), local_(local) {}

  void run() {
    chain_.push_back({recipe_.file, canonical(recipe_.file), 0});
    int source = 0;
    std::optional<std::string> path = take_extends(recipe_.config, source);
    while (path) {
      Literal base = load(base_path(chain_.back().file, *path), *path, source);
      source = static_cast<int>(recipe_.bases.size());
      // Taken out before the merge, or the base's own `extends` would become the recipe's.
      path = take_extends(base, source);
      merge(recipe_.config, base, "");
    }
  }

 private:
  [[noreturn]] void fail(int source, int line, const std::string& what) const {
    const auto [file, text] = source_of(source);
    throw UsageError(
        fmt::format("{}:{}: {}{}", file, line, what, excerpt_of_word(text, line, kExtends)));
  }
  std::pair<std::string, std::string> source_of(int source) const {
    if (source == 0) return {recipe_.file, recipe_.text};
    const ConfigSource& base = recipe_.bases[static_cast<size_t>(source) - 1];
    return {base.file, base.text};
  }

  static std::string canonical(const std::string& file) {
    std::error_code code;
    const fs::path real = fs::weakly_canonical(file, code);
    return code ? file : real.string();
  }

  std::optional<std::string> take_extends(Literal& config, int source) {
    const Literal* found = config.find(kExtends);
    if (found == nullptr) return std::nullopt;
    const Literal value = *found;
    std::erase_if(config.entries, [](const Literal::Entry& one) { return one.key == kExtends; });
    if (value.is_table || !value.scalar.is_string() || value.scalar.as_string().empty()) {
      fail(source, value.line,
           fmt::format("extends: got {}, wanted the file of a recipe or bundle",
                       dump_json(literal_json(value))));
    }
    chain_.back().line = value.line;
    return value.scalar.as_string();
  }

  Literal load(const std::string& file, const std::string& spelled, int source) {
    const int line = chain_.back().line;
    const std::string real = canonical(file);
    for (const ChainLink& link : chain_) {
      if (link.canonical != real) continue;
      fail(source, line,
           fmt::format("extends {}, which extends this one ({}:{}): a cycle", spelled, link.file,
                       link.line));
    }
    std::string text;
    try {
      // A base in a bundle is a member, so it is read from the folder of the extracted bundle.
      const std::string path = local_ ? local_(file) : file;
      if (is_bundle_name(file)) return of_bundle(file, path);
      text = read_file(path, kMostBaseBytes);
    } catch (const Error& error) {
      fail(source, line, fmt::format("extends {}: {}", spelled, error.what()));
    }
    ScannedRecipe base = scan_recipe(file, std::move(text));
    if (base.config_name.empty()) {
      fail(source, line,
           fmt::format("extends {}, which has no config: no line says local cfg = xrun.config {{",
                       spelled));
    }
    // The text is kept for the excerpts of later errors.
    recipe_.bases.push_back({file, base.text});
    chain_.push_back({file, real, 0});
    set_source(base.config, static_cast<int>(recipe_.bases.size()));
    return base.config;
  }

  // Opens the bundle with the checks for hostile input; ignores its code.
  Literal of_bundle(const std::string& file, const std::string& path) {
    const Bundle bundle = Bundle::open(path);
    const BundleLock& lock = bundle.lock();
    // No text, since the settings are resolved values without lines.
    recipe_.bases.push_back({file, ""});
    chain_.push_back({file, "", 0});
    return literal_of(lock.config, "", [&](const std::string& key) {
      // A list of plain values has its origin at its first element.
      std::string origin = text_member(lock.origins, key);
      if (origin.empty()) origin = text_member(lock.origins, key + ".1");
      return origin.empty() ? file : fmt::format("{} ({})", file, origin);
    });
  }

  static void set_source(Literal& literal, int source) {
    literal.source = source;
    for (Literal::Entry& entry : literal.entries) set_source(entry.value, source);
  }

  // Returns true for a base's `epochs` or `steps` that has no effect: only one of the two decides
  // the length of a run, the nearest one, and in a base that has both `steps`.
  static bool is_settled(const Literal& over, const Literal& base, const std::string& path,
                         const std::string& key) {
    if (!path.empty()) return false;
    if (key == "epochs") return over.find("steps") != nullptr || base.find("steps") != nullptr;
    return key == "steps" && over.find("epochs") != nullptr;
  }

  void merge(Literal& over, const Literal& base, const std::string& path) {
    for (const Literal::Entry& entry : base.entries) {
      const std::string inner = path.empty() ? entry.key : path + "." + entry.key;
      Literal* own = over.find(entry.key);
      if (own == nullptr) {
        if (is_settled(over, base, path, entry.key)) {
          recipe_.replaced.push_back({inner, entry.value});
        } else {
          over.entries.push_back(entry);
        }
        continue;
      }
      // Checked here, since the fields' own checks would report the wrong file.
      check_type(*own, entry.value, inner);
      // Lists are replaced as a whole: nobody could tell which elements of the base remain.
      const bool tables =
          own->is_table && entry.value.is_table && !own->is_list() && !entry.value.is_list();
      if (tables) {
        merge(*own, entry.value, inner);
      } else {
        recipe_.replaced.push_back({inner, entry.value});
      }
    }
  }

  void check_type(const Literal& own, const Literal& base, const std::string& path) const {
    if (takes_two_types(path) || same_type(own, base)) return;
    const auto [file, text] = source_of(own.source);
    const std::string word = path.substr(path.rfind('.') + 1);
    throw UsageError(fmt::format("{}: `{}` is {}, and {} in the base, {}{}",
                                 literal_origin(recipe_, own), path, type_of(own), type_of(base),
                                 literal_origin(recipe_, base),
                                 own.origin.empty() ? excerpt_of_word(text, own.line, word) : ""));
  }

  ScannedRecipe& recipe_;
  const LocalPath& local_;
  std::vector<ChainLink> chain_;
};

}  // namespace

std::string base_path(const std::string& file, const std::string& base) {
  // Relative to the recipe that extends it, not to the current folder; an absolute path stays.
  return (fs::path(file).parent_path() / base).lexically_normal().string();
}

ScannedRecipe scan_with_bases(std::string file, std::string text, const LocalPath& local) {
  ScannedRecipe recipe = scan_recipe(std::move(file), std::move(text));
  BaseMerge(recipe, local).run();
  return recipe;
}

}  // namespace xrun
