// The fields of `xrun diff --json`. Fields may be added, never renamed.

#include "core/run/record/run_comparison.h"

namespace xrun {

namespace {

Json facts_json(const std::vector<FactDifference>& facts) {
  Json out = Json::array();
  for (const FactDifference& fact : facts) {
    out.push_back(Json(Json::Object{{"name", fact.name}, {"a", fact.a}, {"b", fact.b}}));
  }
  return out;
}

Json texts_json(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push_back(text);
  return out;
}

Json settings_json(const std::vector<SettingDifference>& settings) {
  Json out = Json::array();
  for (const SettingDifference& setting : settings) {
    Json row(Json::Object{{"key", setting.key},
                          {"a", setting.a},
                          {"b", setting.b},
                          {"origin_a", setting.origin_a},
                          {"origin_b", setting.origin_b}});
    // "excuse", "first_apart" and "apart" are older words, kept because scripts read them.
    if (!setting.note.empty()) row.set("excuse", setting.note);
    out.push_back(std::move(row));
  }
  return out;
}

Json final_json(const FinalDifference& last) {
  return Json(Json::Object{{"metric", last.metric},
                           {"step_a", last.step_a},
                           {"a", last.a},
                           {"step_b", last.step_b},
                           {"b", last.b}});
}

Json resumes_json(const std::vector<ChangedResume>& resumes) {
  Json out = Json::array();
  for (const ChangedResume& one : resumes) {
    out.push_back(Json(Json::Object{{"run", one.run},
                                    {"at", one.at},
                                    {"step", one.step < 0 ? Json() : Json(one.step)},
                                    {"forced", one.forced},
                                    {"changed", texts_json(one.changed)}}));
  }
  return out;
}

// An older list, of fewer resumes and without "forced", kept because scripts read it.
Json forced_json(const std::vector<ChangedResume>& resumes) {
  Json out = Json::array();
  for (const ChangedResume& one : resumes) {
    if (!one.forced) continue;
    out.push_back(Json(Json::Object{{"run", one.run},
                                    {"at", one.at},
                                    {"step", one.step < 0 ? Json() : Json(one.step)},
                                    {"changed", texts_json(one.changed)}}));
  }
  return out;
}

Json results_json(const RunComparison& one) {
  Json steps = Json::array();
  steps.push_back(one.steps_a);
  steps.push_back(one.steps_b);
  Json finals = Json::array();
  for (const FinalDifference& last : one.finals) finals.push_back(final_json(last));
  Json out = Json::object();
  out.set("steps", std::move(steps));
  out.set("common_lines", one.common_lines);
  out.set("first_apart", Json());
  if (one.first_divergence >= 0) out.set("first_apart", one.first_divergence);
  out.set("apart", facts_json(one.diverging));
  out.set("only_a", texts_json(one.only_a));
  out.set("only_b", texts_json(one.only_b));
  out.set("final", std::move(finals));
  out.set("weights", facts_json(one.weights));
  return out;
}

}  // namespace

Json comparison_json(const RunComparison& one) {
  Json code = Json::object();
  code.set("recipe_same", Json());
  if (one.recipe_known) code.set("recipe_same", one.recipe_same);
  code.set("recipe", texts_json(diff_text(one.recipe)));
  code.set("program", facts_json(one.program));
  Json out = Json::object();
  out.set("runs", texts_json({one.name_a, one.name_b}));
  out.set("same", one.same());
  out.set("config", settings_json(one.settings));
  out.set("code", std::move(code));
  out.set("data", facts_json(one.data));
  out.set("machine", facts_json(one.machine));
  out.set("results", results_json(one));
  out.set("resumes", resumes_json(one.resumes));
  out.set("forced", forced_json(one.resumes));
  return out;
}

}  // namespace xrun
