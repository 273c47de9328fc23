// lua_next has no fixed order, so the objects are sorted by name: every checkpoint writes its files
// in the same order.

#include "lua/bind/run/run_objects.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/train/adamw.h"
#include "core/train/ema.h"
#include "core/train/models/policy.h"
#include "core/train/models/scorer.h"
#include "lua/state/args.h"
#include "lua/state/frame_locals.h"

namespace xrun {

namespace {

// A scorer's policy may also be saved separately.
void add_policy(RunModels& models, const std::shared_ptr<Policy>& policy) {
  auto& all = models.policies;
  if (std::find(all.begin(), all.end(), policy) == all.end()) all.push_back(policy);
}

// The recipe's local variable that holds an optimizer: "second"; "" if none does.
std::string local_name_of(lua_State* L, const AdamW& adamw) {
  std::string found;
  any_local(L, [&](std::string_view name, int value) {
    if (name[0] == '(' || class_of(L, value) != &class_info<AdamW>) return false;
    if (arg<std::shared_ptr<AdamW>>(L, value).get() != &adamw) return false;
    found = name;
    return true;
  });
  return found;
}

// "policy = policy, adamw = adamw" of the objects that xrun.run was given, then `more`.
std::string objects_with(const SavedObjects& saved, const std::string& more) {
  std::string text;
  for (const auto& one : saved) add_item(text, fmt::format("{0} = {0}", one.first));
  add_item(text, fmt::format("{0} = {0}", more));
  return text;
}

}  // namespace

SavedObjects read_objects(lua_State* L, int i, RunModels& models) {
  if (lua_type(L, i) != LUA_TTABLE) {
    throw_argument(L, i, "objects",
                   "a table of what the run saves: { policy = policy, adamw = adamw }");
  }
  SavedObjects saved;
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    XRUN_CHECK(lua_type(L, -2) == LUA_TSTRING,
               "an object that is saved needs a name: {{ policy = policy }}");
    const std::string name = lua_tostring(L, -2);
    const int value = lua_gettop(L);
    if (class_of(L, value) == &class_info<Policy>) {
      const auto policy = arg<std::shared_ptr<Policy>>(L, value);
      add_policy(models, policy);
      saved.emplace_back(name, policy);
    } else if (class_of(L, value) == &class_info<Scorer>) {
      const auto scorer = arg<std::shared_ptr<Scorer>>(L, value);
      // The scorer saves the policy's weights too, so it need not be given separately.
      add_policy(models, scorer->policy());
      saved.emplace_back(name, scorer);
    } else if (class_of(L, value) == &class_info<AdamW>) {
      models.optimizers.push_back(arg<std::shared_ptr<AdamW>>(L, value));
      saved.emplace_back(name, models.optimizers.back());
    } else if (class_of(L, value) == &class_info<Ema>) {
      saved.emplace_back(name, arg<std::shared_ptr<Ema>>(L, value));
    } else {
      throw Error(
          fmt::format("{} is {}, which cannot be saved; give policies, scorers, "
                      "optimizers and averages, and keep plain values in run.state",
                      name, type_name(L, value)));
    }
  }
  std::sort(saved.begin(), saved.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return saved;
}

void report_unsaved(lua_State* L, Session& session, const SavedObjects& saved) {
  const auto is_saved = [&](const Saveable* object) {
    return std::any_of(saved.begin(), saved.end(),
                       [&](const auto& one) { return one.second.get() == object; });
  };
  for (const std::shared_ptr<AdamW>& adamw : session.models.optimizers()) {
    if (!is_saved(adamw.get())) {
      const std::string name = local_name_of(L, *adamw);
      session.notices.add(fmt::format(
          "warning: {} is not given to xrun.run, so a resume begins its moments again: write "
          "xrun.run(cfg, {{ {} }})",
          name.empty() ? "an optimizer of xrun.adamw" : "the optimizer `" + name + "`",
          objects_with(saved, name.empty() ? "optimizer" : name)));
    }
    for (const std::shared_ptr<Ema>& average : adamw->averages()) {
      if (is_saved(average.get())) continue;
      session.notices.add(
          "warning: an average of xrun.ema is not given to xrun.run, so a resume begins it again: "
          "write xrun.run(cfg, { policy = policy, adamw = adamw, ema = ema })");
    }
  }
}

}  // namespace xrun
