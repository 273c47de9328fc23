// The checks run in the order of the report: program, operators, settings, inputs.

#include "core/share/opened_bundle.h"

#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/file_access.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/config/config_base.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

Json member_of(const Json& object, const char* name) {
  const Json* value = object.find(name);
  return value == nullptr ? Json("absent") : *value;
}

// The sources and LibTorch decide the numbers. Another compiler of the same sources is only
// reported: the first steps show whether they compute the same.
void compare_program(const ProgramFacts& program, OpenedBundle& bundle) {
  const Json &locked = bundle.lock.binary, &now = program.binary;
  for (const char* name : {"source", "torch"}) {
    const Json a = member_of(locked, name), b = member_of(now, name);
    if (a != b) {
      bundle.differences.push_back({fmt::format("binary.{}", name), dump_json(a), dump_json(b)});
    }
  }
  // Other sources make another build anyway.
  if (!bundle.differences.empty()) return;
  std::string built;
  for (const char* name : {"compiler", "engine", "core"}) {
    if (member_of(locked, name) != member_of(now, name)) add_item(built, name);
  }
  if (built.empty()) return;
  bundle.notices.push_back(fmt::format(
      "the same sources of xrun, built elsewhere (other: {}); the last digits may differ", built));
}

void compare_operators(const ProgramFacts& program, OpenedBundle& bundle) {
  for (const auto& [name, schemas] : bundle.lock.operators.as_object()) {
    Json now = Json::array();
    for (const std::string& schema : program.operators(name)) now.push_back(schema);
    if (now == schemas) continue;
    for (Difference& one : find_differences(schemas, now, "operators." + name)) {
      bundle.differences.push_back(std::move(one));
    }
  }
}

// Defaults are this program's, so they may differ from the bundle's.
void compare_settings(const BundleLock& lock, const ScannedRecipe& scanned, OpenedBundle& out) {
  const Config config = Config::resolve(scanned, lock.sets);
  for (Difference& one : find_differences(lock.config, config.values(), "config")) {
    out.differences.push_back(std::move(one));
  }
  const Json* seed = config.find("seed");
  const Json seeds(Json::Object{{"seed", seed == nullptr ? Json() : *seed}});
  for (Difference& one : find_differences(lock.seeds, seeds, "seeds")) {
    out.differences.push_back(std::move(one));
  }
}

void add_texts(const Json& value, std::set<std::string>& out) {
  if (value.is_string()) out.insert(value.as_string());
  if (value.is_array()) {
    for (const Json& element : value.as_array()) add_texts(element, out);
  }
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.as_object()) add_texts(member, out);
}

// Returns the strings of the locked settings that the present settings lack. An input of such a
// name is not opened by the recipe.
std::set<std::string> replaced_texts(const BundleLock& lock, const ScannedRecipe& scanned,
                                     const std::vector<std::string>& sets) {
  std::vector<std::string> all = lock.sets;
  all.insert(all.end(), sets.begin(), sets.end());
  std::set<std::string> replaced, now;
  add_texts(lock.config, replaced);
  add_texts(Config::resolve(scanned, all).values(), now);
  for (const std::string& text : now) replaced.erase(text);
  return replaced;
}

OpenedBundle extracted(const Bundle& bundle, const fs::path& file) {
  OpenedBundle out;
  out.file = file.string();
  out.lock = bundle.lock();
  out.folder = bundle.extract(bundles_root());
  return out;
}

// Returns one command for all missing inputs: this process's own with the paths that --read has to
// name.
std::string fix_of(const std::vector<FoundInput>& missing) {
  std::string command = command_line(), files;
  for (const FoundInput& one : missing) {
    if (one.allow.empty()) add_item(files, one.file, " and ");
    for (const std::string& path : one.allow) command += " --read " + shell_word(path);
  }
  if (files.empty()) return "to go on: " + command;
  return fmt::format(
      "to go on: {} --read FOLDER, which has {}; a bundle made with --with-data and --with-model "
      "needs no other file",
      command, files);
}

void find_inputs(const ProgramFacts& program, const std::set<std::string>& replaced,
                 OpenedBundle& out) {
  const InputSearch search{out.folder, out.file, named_paths(), program.models};
  std::vector<FoundInput> missing;
  for (const LockedInput& input : out.lock.inputs) {
    if (replaced.count(input.name) != 0) continue;
    FoundInput found = find_input(input, search);
    if (!found.missing.empty()) {
      out.missing.push_back(found.missing);
      missing.push_back(std::move(found));
      continue;
    }
    if (found.path != input.name) {
      out.inputs[{input.kind, input.name}] = found.path;
      if (found.where != "in the bundle") {
        out.notices.push_back(
            fmt::format("{} {}: {}", input_kind_name(input.kind), input.name, found.where));
      }
    }
    for (Difference& one : found.differences) out.differences.push_back(std::move(one));
  }
  if (!missing.empty()) out.missing_fix = fix_of(missing);
}

}  // namespace

std::string OpenedBundle::local_path(const std::string& path) const {
  // Normal, so that FILE.xrb/../secret is not a member.
  const std::string plain = fs::path(path).lexically_normal().string();
  const std::string prefix = fs::path(file).lexically_normal().string() + "/";
  return plain.starts_with(prefix) ? (folder / plain.substr(prefix.size())).string() : path;
}

std::string OpenedBundle::local_input(InputKind kind, const std::string& name) const {
  const auto found = inputs.find({kind, name});
  return found == inputs.end() ? name : found->second;
}

OpenedBundle extract_bundle(const fs::path& file) { return extracted(Bundle::open(file), file); }

OpenedBundle open_bundle(const fs::path& file, const ProgramFacts& program,
                         const std::vector<std::string>& sets) {
  const Bundle bundle = Bundle::open(file);
  OpenedBundle out = extracted(bundle, file);
  compare_program(program, out);
  compare_operators(program, out);
  std::optional<ScannedRecipe> scanned;
  try {
    scanned = scan_with_bases(out.recipe(), std::string(bundle.text(out.lock.recipe)),
                              [&](const std::string& base) { return out.local_path(base); });
    compare_settings(out.lock, *scanned, out);
  } catch (const UsageError& error) {
    // For example, this program does not know a key.
    out.differences.push_back({"config", "resolved", error.what()});
    scanned.reset();
  }
  std::set<std::string> replaced;
  if (scanned && !sets.empty()) replaced = replaced_texts(out.lock, *scanned, sets);
  find_inputs(program, replaced, out);
  return out;
}

std::vector<std::string> accept_bundle(const OpenedBundle& bundle, bool force) {
  if (!bundle.missing.empty()) {
    std::string text;
    for (const std::string& one : bundle.missing) add_item(text, one, "\n");
    throw UsageError(fmt::format("{}: {}\n{}", bundle.file, text, bundle.missing_fix));
  }
  std::vector<std::string> notices = bundle.notices;
  if (bundle.differences.empty()) return notices;
  const std::string text = describe_differences(bundle.differences);
  if (!force) {
    throw UsageError(fmt::format(
        "{}: differs from the bundle's lock:\n{}add --force to run it anyway", bundle.file, text));
  }
  notices.push_back(fmt::format("running by --force, not as the bundle's lock says:\n{}", text));
  return notices;
}

}  // namespace xrun
