// A lock holds no date, user name or path, so two bundles of one recipe are byte-identical: origins
// name members, and inputs keep the recipe's spelling.

#include "core/share/bundle_maker.h"

#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/bundle/bundle_file.h"
#include "core/config/config_base.h"
#include "core/share/recipe_sources.h"
#include "core/share/recorded_run.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// Returns the origins with files replaced by members: "recipes/dpo.lua:9" becomes
// "recipe/dpo.lua:9".
Json member_origins(const Json& origins, const RecipeSources& sources, const std::string& recipe) {
  Json out = Json::object();
  for (const auto& [path, origin] : origins.as_object()) {
    std::string text = origin.as_string();
    const auto rename = [&](const std::string& file, const std::string& member) {
      if (text.starts_with(file + ":") || text.starts_with(file + " (")) {
        text = member + text.substr(file.size());
        return true;
      }
      return false;
    };
    bool done = rename(recipe, sources.recipe);
    for (size_t i = 0; i < sources.files.size() && !done; ++i) {
      done = rename(sources.files[i].path.string(), sources.files[i].member);
    }
    out.set(path, text);
  }
  return out;
}

// Names the folders of the inputs' members, each once: "data/1/", "model/tiny/".
class InputFolders {
 public:
  std::string next(const NamedInput& input) {
    const std::string kind = input_kind_name(input.kind);
    int number = ++count_[kind];
    // A model is named by its own folder.
    if (input.kind == InputKind::kModel) {
      const std::string own = fs::path(input.name).lexically_normal().filename().string();
      if (bad_member_name(own).empty() && taken_.insert(kind + "/" + own + "/").second) {
        return kind + "/" + own + "/";
      }
    }
    // A model's own folder may have been called 2.
    for (;; ++number) {
      const std::string folder = fmt::format("{}/{}/", kind, number);
      if (taken_.insert(folder).second) return folder;
    }
  }

 private:
  std::map<std::string, int> count_;  // inputs by kind
  std::set<std::string> taken_;
};

// Data and weights are large, and the author may often not pass them on, so they are left out
// unless asked for; templates, projections and configs always go in.
bool takes(const BundleRequest& request, const LockedInput& input, const LockedFile& file) {
  if (input.kind == InputKind::kData) return request.with_data;
  return input.kind != InputKind::kModel || request.with_model || !is_weights(file);
}

void add_inputs(const BundleRequest& request, const RecipeSources& sources, BundleLock& lock,
                std::vector<BundleMember>& members) {
  InputFolders folders;
  for (const NamedInput& input : sources.inputs) {
    LocalInput local = measure_input(input, request.models);
    const std::string folder = folders.next(input);
    for (size_t i = 0; i < local.files.size(); ++i) {
      LockedFile& file = local.locked.files[i];
      if (!takes(request, local.locked, file)) continue;
      file.member = folder + file.name;
      members.push_back({.name = file.member, .file = local.files[i], .text = {}});
    }
    lock.inputs.push_back(std::move(local.locked));
  }
}

void add_operators(const BundleRequest& request, const RecipeSources& sources, BundleLock& lock) {
  lock.operators = Json::object();
  for (const std::string& word : sources.words) {
    Json schemas = Json::array();
    // Words that are not operators, such as names of Lua tables and methods, have no schema.
    for (const std::string& schema : request.operators(word)) schemas.push_back(schema);
    if (schemas.size() > 0) lock.operators.set(word, std::move(schemas));
  }
}

void add_run(const BundleRequest& request, const std::string& text, BundleLock& lock,
             std::vector<std::string>& notices) {
  if (request.run.empty()) return;
  const std::string changed = settings_changed_later(request.run);
  if (!changed.empty()) {
    notices.push_back(fmt::format(
        "{}: was resumed with other settings ({}), so a run of the bundle could not repeat its "
        "steps; run the recipe from the start with its current settings to record first steps",
        request.run.string(), changed));
    return;
  }
  try {
    lock.run = record_first_steps(request.run, lock, text, request.run_binary, kFirstSteps);
  } catch (const Error& error) {
    const std::string what = fmt::format("{}: its first steps cannot be recorded: {}",
                                         request.run.string(), error.what());
    // A run that was only found next to the recipe is optional.
    if (request.run_given) throw Error(what);
    notices.push_back(what);
  }
}

}  // namespace

BundleLock lock_of_recipe(const BundleRequest& request, std::vector<BundleMember>& members,
                          std::vector<std::string>& notices) {
  const ScannedRecipe scanned =
      scan_with_bases(request.recipe, read_file(request.recipe, kMostRecipeBytes));
  const Config config = Config::resolve(scanned, request.sets);
  const RecipeSources sources = read_recipe_sources(request.recipe, scanned, config);
  notices.insert(notices.end(), sources.notices.begin(), sources.notices.end());
  BundleLock lock;
  lock.recipe = sources.recipe;
  lock.sets = request.sets;
  lock.config = config.values();
  lock.origins = member_origins(config.to_json().at("origins"), sources, request.recipe);
  const Json* seed = config.find("seed");
  lock.seeds = Json(Json::Object{{"seed", seed == nullptr ? Json() : *seed}});
  lock.binary = request.binary;
  for (const SourceFile& file : sources.files) {
    members.push_back({.name = file.member, .file = {}, .text = file.text});
  }
  add_inputs(request, sources, lock, members);
  add_operators(request, sources, lock);
  add_run(request, scanned.text, lock, notices);
  return lock;
}

MadeBundle make_bundle(const BundleRequest& request, fs::path out) {
  MadeBundle made;
  std::vector<BundleMember> members;
  made.lock = lock_of_recipe(request, members, made.notices);
  if (out.empty()) out = fs::path(request.recipe).stem().string() + kBundleEnding;
  write_bundle(made.lock, std::move(members), out);
  // Writing adds the digests of the members, so the lock is read back.
  made.lock = Bundle::open(out).lock();
  made.path = out;
  return made;
}

}  // namespace xrun
