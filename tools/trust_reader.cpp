// The command line alone decides: no byte of a recipe is read to find out whether to trust it.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/bundle/bundle_file.h"
#include "tools/commands/command_names.h"
#include "tools/untrusted.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostRecordBytes = 1 << 24;

// Options whose value is a file that the command writes, and those whose value is not a path.
constexpr std::string_view kWrittenFiles[] = {"-o", "--out", "--html"};
constexpr std::string_view kWithValue[] = {"--device", "--threads", "--steps",      "--repl-at",
                                           "--step",   "--rows",    "--color",      "--width",
                                           "--where",  "--gpus",    "--utilisation"};

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// Returns true if the path is in the folder as it is written, but not after its links are resolved;
// a link to nothing counts as one that leads out.
bool leads_out_of(const fs::path& folder, const fs::path& path) {
  const auto below = [](const fs::path& top, const fs::path& one) {
    return std::mismatch(top.begin(), top.end(), one.begin(), one.end()).first == top.end();
  };
  std::error_code code;
  const auto written = [](const fs::path& one) {
    const fs::path normal = absolute_path(one).lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
  };
  if (!below(written(folder), written(path))) return false;
  if (fs::is_symlink(path, code) && !fs::exists(path, code)) return true;
  return !below(fs::weakly_canonical(absolute_path(folder), code),
                fs::weakly_canonical(absolute_path(path), code));
}

// Returns true if the folder is a run's whose recipe had limits.
bool is_untrusted_run(const fs::path& folder) {
  const fs::path record = folder / "run.json";
  if (!is_file(record)) return false;
  try {
    const Json untrusted = parse_json(read_file(record, kMostRecordBytes), record.string());
    const Json* mark = untrusted.is_object() ? untrusted.find("untrusted") : nullptr;
    return mark != nullptr && mark->is_bool() && mark->as_bool();
  } catch (const Error&) {
    return true;  // what cannot be read proves nothing
  }
}

// Returns the lock of a bundle beside a recipe or in any folder above it, both as the path is
// written and with its links resolved, or "". Such a lock shows that someone sent the recipe. The
// search goes up to the root: a lock that has nothing to do with the recipe only adds limits, and
// the note names it.
fs::path foreign_lock(const fs::path& recipe) {
  std::error_code code;
  const fs::path written = absolute_path(folder_of(recipe)).lexically_normal();
  const fs::path real = folder_of(fs::weakly_canonical(absolute_path(recipe), code));
  for (fs::path folder : {written, real}) {
    if (is_untrusted_run(folder)) return folder / "run.json";
    for (fs::path above;; folder = above) {
      if (is_file(folder / kBundleLock)) return folder / kBundleLock;
      above = folder.parent_path();
      if (above == folder) break;
    }
  }
  return {};
}

// Returns the recipe and the file that shows that a stranger made it, for the note; "" if no file
// does.
std::string foreign_text(const std::string& recipe) {
  if (is_bundle_name(recipe)) return recipe;
  const fs::path lock = foreign_lock(recipe);
  return lock.empty() ? "" : fmt::format("{} (see {})", recipe, lock.string());
}

int64_t read_limit(const std::string& option, const std::string& text) {
  constexpr int64_t kMost = int64_t{1} << 40;  // MB are later shifted to bytes within 64 bits
  const auto number = whole_number_of(text);
  if (number && *number >= 1 && *number <= kMost) return *number;
  throw UsageError(fmt::format("{}: got {}, wanted a whole number from 1 to {}", option, text,
                               count_text(kMost)));
}

// Walks over the arguments; `rest` gets those that the command sees.
class TrustReader {
 public:
  TrustReader(TrustOptions& options, const std::vector<char*>& arguments)
      : out_(options), arguments_(arguments) {}

  void read() {
    for (; at_ < arguments_.size(); ++at_) {
      if (!take_option()) note_argument();
    }
    if (trusted && out_.untrusted) throw UsageError("--trusted and --untrusted: give one");
    for (const fs::path& path : settings_) {
      // The user named the path, but a link in the recipe's folder is the stranger's.
      const bool leads_out = std::any_of(
          recipes.begin(), recipes.end(),
          [&](const std::string& recipe) { return leads_out_of(folder_of(recipe), path); });
      if (leads_out) continue;
      out_.named.readable.push_back(path);
      out_.read.push_back(path);
    }
  }

  std::vector<char*> rest;
  std::vector<std::string> recipes;
  bool trusted = false;
  std::string limit;  // the last option of a limit

 private:
  // Returns true if the current argument is `--name VALUE` or `--name=VALUE`, and sets `value`.
  bool value_of(std::string_view name, std::string& value) {
    const std::string_view argument = arguments_[at_];
    if (argument.starts_with(name) && argument.substr(name.size()).starts_with('=')) {
      value = argument.substr(name.size() + 1);
      return true;
    }
    if (argument != name) return false;
    if (at_ + 1 >= arguments_.size()) {
      throw UsageError(fmt::format("{} needs a value", name));
    }
    value = arguments_[++at_];
    return true;
  }

  bool take_option() {
    const std::string_view argument = arguments_[at_];
    std::string value;
    if (argument == "--trusted") return trusted = true;
    if (argument == "--untrusted") return out_.untrusted = true;
    if (value_of("--read", value)) {
      if (!path_exists(value)) throw UsageError(fmt::format("--read {}: no such path", value));
      out_.named.readable.emplace_back(value);
      out_.read.emplace_back(value);
      return true;
    }
    for (const auto& [name, to] : {std::pair{"--limit-seconds", &out_.limits.seconds},
                                   {"--limit-memory", &out_.limits.memory_mb},
                                   {"--limit-files", &out_.limits.files_mb},
                                   {"--limit-output", &out_.limits.output_mb}}) {
      if (!value_of(name, value)) continue;
      *to = read_limit(name, value);
      limit = name;
      return true;
    }
    return false;
  }

  // Passes an argument on to the command and notes the paths that it lets the command open.
  void note_argument() {
    const std::string_view argument = arguments_[at_];
    rest.push_back(arguments_[at_]);
    const size_t equals = argument.starts_with('-') ? argument.find('=') : argument.npos;
    const std::string_view name = argument.substr(0, equals);
    const bool has_value = name == "--run" || contains(kWrittenFiles, name) ||
                           contains(kWithValue, name) || name == "--set";
    if (!has_value) {
      // The name of the command is not a path, even if a folder here has that name.
      const bool command = at_ == 1 && find_command(argument) != nullptr;
      if (!argument.starts_with('-') && !command) note_path(argument);
      return;
    }
    if (equals == argument.npos && at_ + 1 >= arguments_.size()) return;  // the command says so
    if (equals == argument.npos) rest.push_back(arguments_[++at_]);
    const std::string value(equals == argument.npos ? std::string_view(arguments_[at_])
                                                    : argument.substr(equals + 1));
    // A bundle is made of a run; every other command writes one.
    const bool reads = std::string_view(arguments_[1]) == "bundle";
    if (name == "--run") (reads ? out_.named.readable : out_.named.writable).emplace_back(value);
    if (contains(kWrittenFiles, name)) out_.named.writable.push_back(folder_of(value));
    if (name == "--set") note_setting(value);
  }

  void note_path(std::string_view argument) {
    const fs::path path = argument;
    std::error_code code;
    // Any file counts as a recipe, since commands such as check read any file as Lua.
    if (is_recipe(argument) || is_file(path)) {
      recipes.emplace_back(argument);
      out_.named.readable.push_back(folder_of(path));
    } else if (fs::is_directory(path, code)) {  // a run
      out_.named.readable.push_back(path);
    }
  }

  // Notes the path of KEY=PATH, which may be in quotes or have wildcards.
  void note_setting(std::string_view setting) {
    const size_t equals = setting.find('=');
    if (equals == setting.npos) return;
    std::string_view value = setting.substr(equals + 1);
    if (value.size() >= 2 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0]) {
      value = value.substr(1, value.size() - 2);
    }
    const size_t wild = value.find_first_of("*?[");
    fs::path path = wild == value.npos ? value : value.substr(0, value.rfind('/', wild) + 1);
    if (wild != value.npos && path.empty()) path = ".";
    std::error_code code;
    if (!path.empty() && fs::exists(path, code)) settings_.push_back(path);
  }

  TrustOptions& out_;
  const std::vector<char*>& arguments_;
  size_t at_ = 1;
  std::vector<fs::path> settings_;  // paths that are values of --set
};

}  // namespace

bool is_recipe(std::string_view file) { return file.ends_with(".lua") || is_bundle_name(file); }

TrustOptions take_trust_options(std::vector<char*>& arguments) {
  TrustOptions options;
  const std::string_view name = arguments.size() > 1 ? arguments[1] : "help";
  // `explain --untrusted` asks what the option means.
  if (name == "explain" && arguments.size() == 3) return options;
  const CommandName* command = find_command(name);
  const bool opens = command != nullptr ? command->opens_recipes : is_recipe(name);
  if (!opens && !name.starts_with('-')) return options;
  TrustReader reader(options, arguments);
  reader.rest.push_back(arguments[0]);
  reader.read();
  arguments = reader.rest;
  for (const std::string& recipe : reader.recipes) {
    if (std::string text = foreign_text(recipe); !text.empty()) add_item(options.foreign, text);
  }
  options.by_default = !options.foreign.empty() && !options.untrusted && !reader.trusted;
  // A child keeps its limits, even if a lock was removed since its parent started it.
  options.untrusted = options.untrusted || options.by_default || is_untrusted_child();
  if (!options.untrusted && !reader.limit.empty()) {
    throw UsageError(fmt::format(
        "{} limits recipes that are not trusted; add --untrusted to run this one with limits",
        reader.limit));
  }
  // A run without --run has its folder there.
  const bool runs = is_recipe(name) || name.starts_with('-');
  if (runs && options.untrusted && options.named.writable.empty()) {
    if (leads_out_of(".", "runs")) {
      throw UsageError(
          "runs: is a link out of this folder, perhaps planted with the recipe; choose the run's "
          "folder with --run DIR");
    }
    options.named.writable.emplace_back("runs");
  }
  if (name == "bundle" && options.named.writable.empty()) options.named.writable.emplace_back(".");
  return options;
}

}  // namespace xrun
