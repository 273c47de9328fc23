#include "lua/bind/preference_options.h"

#include "core/base/error.h"
#include "lua/bind/field_check.h"
#include "lua/bind/recipe.h"

namespace xrun {

namespace {

PreferenceSource read_source(const Json& entry) {
  PreferenceSource source;
  source.path = entry.at("path").as_string();
  if (const Json* weight = entry.find("weight")) source.weight = weight->as_double();
  if (const Json* name = entry.find("name")) source.name = name->as_string();
  if (const Json* fields = entry.find("fields"); fields && fields->is_object()) {
    for (const auto& [ours, theirs] : fields->as_object()) {
      XRUN_CHECK(theirs.is_string(), "fields.{}: got {}, wanted the column's name", ours,
                 dump_json(theirs));
      source.fields.emplace_back(ours, theirs.as_string());
    }
  }
  if (const Json* keep = entry.find("keep")) {
    for (const Json& column : keep->as_array()) {
      XRUN_CHECK(column.is_string(), "keep: got {}, wanted a column's name", dump_json(column));
      source.keep.push_back(column.as_string());
    }
  }
  return source;
}

}  // namespace

Json option_or_config(const Json& options, lua_State* L, const char* name) {
  if (const Json* value = options.find(name)) return *value;
  const Json* value = recipe_context(L).config.find(name);
  return value == nullptr ? Json() : *value;
}

std::vector<PreferenceSource> read_preference_sources(const Json& data) {
  XRUN_CHECK(data.is_array() && data.size() > 0,
             "data: got {}, wanted a list of sources: {{ {{ path = \"pairs.jsonl\" }} }}",
             data.size() == 0 && !data.is_string() ? "an empty table" : dump_json(data));
  check_fields(data, "data");
  std::vector<PreferenceSource> sources;
  for (const Json& entry : data.as_array()) sources.push_back(read_source(entry));
  return sources;
}

PreferenceOptions read_preference_options(lua_State* L, const Json& options, const Json& data) {
  PreferenceOptions result;
  result.sources = read_preference_sources(data);
  const auto value = [&](const char* name) { return option_or_config(options, L, name); };
  if (const Json v = value("max_length"); !v.is_null()) result.max_length = v.as_int();
  if (const Json v = value("over_length"); v.is_string()) {
    result.over_length = parse_over_length(v.as_string());
  }
  // "assistant" is the default of every row type; for pairs it means the turns after the prompt.
  if (const Json v = value("train_on"); v.is_string()) {
    result.train_on = parse_train_on(v.as_string());
  }
  if (const Json v = value("strict"); v.is_bool()) result.strict = v.as_bool();
  if (const Json v = value("laws"); v.is_object()) {
    for (const auto& [law, on] : v.as_object()) {
      if (!on.as_bool()) result.disabled_laws.push_back(law);
    }
  }
  if (const Json v = value("mixture"); v.is_object()) {
    if (const Json* stop = v.find("stop"); stop && stop->is_string()) {
      result.stop = parse_mixture_stop(stop->as_string());
    }
  }
  return result;
}

}  // namespace xrun
