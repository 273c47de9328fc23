// The tokens of each file are walked once. The table of xrun.config is skipped: the resolved config
// counts instead, which includes --set and bases.

#include "core/share/recipe_sources.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/bundle/bundle_file.h"
#include "core/config/config_base.h"
#include "core/config/lua_source.h"
#include "core/share/module_files.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// Far above any hand-written module; they bound the work for generated and hostile recipes.
constexpr uint64_t kMostModuleBytes = uint64_t{16} << 20;
constexpr size_t kMostModules = 1000;

bool opens_model(std::string_view name) {
  return name == "policy" || name == "frozen" || name == "tokenizer";
}

// Reads the text and never runs it: bundling someone's recipe must not execute it.
class SourceReader {
 public:
  SourceReader(const std::string& recipe, const ScannedRecipe& scanned, const Config& config)
      : scanned_(scanned), config_(config), recipe_(fs::path(recipe).lexically_normal()) {}

  RecipeSources read() {
    add_file(recipe_, scanned_.text);
    for (const ConfigSource& base : scanned_.bases) add_base(base.file);
    add_config(config_.values());
    for (const auto& [key, kind] :
         {std::pair("model", InputKind::kModel), std::pair("template", InputKind::kTemplate),
          std::pair("kd.projection", InputKind::kProjection)}) {
      const Json* value = config_.find(key);
      if (value != nullptr && value->is_string()) add_named(kind, value->as_string());
    }
    // The list grows while it is walked, since modules require modules.
    for (size_t i = 0; i < out_.files.size() && i < kMostModules; ++i) {
      // A base may be a bundle, which is not Lua.
      if (!is_bundle_name(out_.files[i].path.string())) walk(out_.files[i]);
    }
    name_members();
    return std::move(out_);
  }

 private:
  void add_file(const fs::path& path, std::string text) {
    for (const SourceFile& known : out_.files) {
      if (known.path == path) return;
    }
    out_.files.push_back({path, "", std::move(text)});
  }

  void add_base(const std::string& file) {
    add_file(fs::path(file).lexically_normal(), read_file(file));
  }

  void add_input(InputKind kind, const std::string& name) {
    const NamedInput input{kind, name};
    const bool known =
        std::find(out_.inputs.begin(), out_.inputs.end(), input) != out_.inputs.end();
    if (!name.empty() && !known) out_.inputs.push_back(input);
  }

  // A template may be "auto" or a built-in name, and a projection "auto", which are not files.
  void add_named(InputKind kind, const std::string& name) {
    if (kind == InputKind::kModel || is_file(name)) add_input(kind, name);
  }

  // Every object with a `path` is a source of rows: data, valid.data, the recipe's own lists.
  void add_config(const Json& value) {
    if (value.is_array()) {
      for (const Json& element : value.as_array()) add_config(element);
    }
    if (!value.is_object()) return;
    const std::string path = text_member(value, "path");
    if (!path.empty()) add_input(InputKind::kData, path);
    for (const auto& [key, member] : value.as_object()) add_config(member);
  }

  // ---- tokens

  const LuaToken& token(size_t i) const { return tokens_[std::min(i, tokens_.size() - 1)]; }
  bool sign(size_t i, const char* text) const { return is_sign(token(i), text); }
  bool name(size_t i, std::string_view text) const { return is_name(token(i), text); }

  void walk(const SourceFile& source) {
    const fs::path path = source.path;  // add_file moves `source`
    tokens_ = lex_lua(source.text);
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (sign(i, ".") && name(i + 1, "config")) {
        i = after_config(i + 2) - 1;  // the loop adds 1
        continue;
      }
      if (token(i).kind != LuaTokenKind::kName) continue;
      // A field or method of this name is not the global function.
      const bool member = i > 0 && (sign(i - 1, ".") || sign(i - 1, ":"));
      if (member) out_.words.insert(token(i).text);
      const size_t argument = sign(i + 1, "(") ? i + 2 : i + 1;
      if (name(i, "require") && !member) {
        add_module(path, argument);
      } else if (member && opens_model(token(i).text)) {
        add_model(argument);
      } else if (sign(i + 1, "=") && token(i + 2).kind == LuaTokenKind::kString) {
        add_option(token(i).text, token(i + 2).text);
      }
    }
  }

  // Returns the token that ends the table of `xrun.config { ... }`, or the next one if no table
  // follows.
  size_t after_config(size_t i) const {
    if (sign(i, "(")) ++i;
    if (!sign(i, "{")) return i;
    int depth = 0;
    for (; i + 1 < tokens_.size(); ++i) {
      if (sign(i, "{")) ++depth;
      if (sign(i, "}") && --depth == 0) break;
    }
    return i;
  }

  void add_option(const std::string& key, const std::string& value) {
    if (key == "path" && is_file(value)) add_input(InputKind::kData, value);
    if (key == "template") add_named(InputKind::kTemplate, value);
    if (key == "projection") add_named(InputKind::kProjection, value);
    std::error_code none;
    if (key == "tokenizer" && fs::is_directory(value, none)) add_input(InputKind::kModel, value);
  }

  // The argument is a literal, or cfg.KEY whose value is a string.
  void add_model(size_t i) {
    if (token(i).kind == LuaTokenKind::kString) return add_input(InputKind::kModel, token(i).text);
    if (!name(i, scanned_.config_name)) return;
    std::string path;
    for (++i; sign(i, ".") && token(i + 1).kind == LuaTokenKind::kName; i += 2) {
      path += (path.empty() ? "" : ".") + token(i + 1).text;
    }
    const Json* value = path.empty() ? nullptr : config_.find(path);
    if (value != nullptr && value->is_string()) add_input(InputKind::kModel, value->as_string());
  }

  void add_module(const fs::path& from, size_t i) {
    if (token(i).kind != LuaTokenKind::kString) {
      out_.notices.push_back(
          fmt::format("{}:{}: requires a module by a computed name, so the bundle lacks it",
                      from.string(), token(i).line));
      return;
    }
    const std::string& name = token(i).text;
    if (name == "xrun" || name.starts_with("xrun.")) return;
    for (const fs::path& file :
         module_candidates(name, from.parent_path(), recipe_.parent_path())) {
      if (!is_file(file)) continue;
      const fs::path path = file.lexically_normal();
      // A module from $XRUN_PATH moves, in a bundle, to the recipe's folder, where require looks
      // first. The modules beside it move with it.
      const fs::path own = from.parent_path(), home = moved_path(from).parent_path();
      fs::path moved = path;
      if (!name.starts_with(".")) {
        moved = module_candidates(name, "", recipe_.parent_path())[0].lexically_normal();
      } else if (home != own) {
        moved = (home / path.lexically_relative(own)).lexically_normal();
      }
      if (moved != path) moved_.emplace_back(path, moved);
      return add_file(path, read_file(path, kMostModuleBytes));
    }
    // Not a file: a module of LuaJIT ("ffi", "bit"), or an error when the recipe runs.
  }

  // ---- names in a bundle

  // Returns the path by which a bundle names a file.
  fs::path moved_path(const fs::path& path) const {
    for (const auto& [from, to] : moved_) {
      if (from == path) return to;
    }
    return path;
  }

  // A member is "recipe/" and the path below the deepest folder that holds all files.
  void name_members() {
    std::vector<fs::path> paths;
    for (const SourceFile& file : out_.files) {
      paths.push_back(absolute_path(moved_path(file.path)).lexically_normal());
    }
    fs::path root = paths[0].parent_path();
    const auto holds = [&](const fs::path& path) {
      const std::string below = path.lexically_relative(root).string();
      return !below.empty() && below != ".." && !below.starts_with("../");
    };
    while (!std::all_of(paths.begin(), paths.end(), holds) && root.has_relative_path()) {
      root = root.parent_path();
    }
    for (size_t i = 0; i < paths.size(); ++i) {
      out_.files[i].member = "recipe/" + paths[i].lexically_relative(root).generic_string();
    }
    out_.recipe = out_.files[0].member;
  }

  const ScannedRecipe& scanned_;
  const Config& config_;
  fs::path recipe_;
  std::vector<LuaToken> tokens_;
  std::vector<std::pair<fs::path, fs::path>> moved_;
  RecipeSources out_;
};

}  // namespace

RecipeSources read_recipe_sources(const std::string& recipe, const ScannedRecipe& scanned,
                                  const Config& config) {
  return SourceReader(recipe, scanned, config).read();
}

}  // namespace xrun
