// xrun.preference: rows of pairs through template, tokenizer and cache, and their splits.

#include "lua/bind/preference.h"

#include "core/base/error.h"
#include "core/console/progress.h"
#include "core/model/hf_config.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "core/train/policy.h"
#include "lua/bind/args.h"
#include "lua/bind/field_check.h"
#include "lua/bind/modules.h"
#include "lua/bind/session.h"

namespace xrun {

namespace {

// What a call leaves unsaid comes from the configuration.
Json option_or_config(const Json& options, lua_State* L, const char* name) {
  if (const Json* value = options.find(name)) return *value;
  const Json* value = recipe_context(L).config.find(name);
  return value == nullptr ? Json() : *value;
}

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

std::vector<PreferenceSource> read_sources(const Json& data) {
  XRUN_CHECK(data.is_array() && data.size() > 0,
             "data: got {}, wanted a list of sources: {{ {{ path = \"pairs.jsonl\" }} }}",
             data.size() == 0 ? "an empty table" : dump_json(data));
  check_fields(data, "data");
  std::vector<PreferenceSource> sources;
  for (const Json& entry : data.as_array()) sources.push_back(read_source(entry));
  return sources;
}

PreferenceOptions read_options(lua_State* L, const Json& options, const Json& data) {
  PreferenceOptions result;
  result.sources = read_sources(data);
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

// What a resume compares: the content of the caches, and the settings that made them.
Session::Input identity_of(const Session& session, const PreferenceData& data) {
  size_t number = 1;
  for (const Session::Input& input : session.inputs) number += input.kind == "data" ? 1 : 0;
  Json identity(Json::Object{
      {"name", data.name}, {"digest", data.set.fingerprint()}, {"keys", data.set.key_documents()}});
  return {"data", std::to_string(number), fmt::format("data set {} ({})", number, data.name),
          std::move(identity)};
}

// Progress of an opened set: its files are hashed, then cached where they are not.
struct BuildLines {
  TaskProgress hashing;
  TaskProgress caching;
};

// What a set needs besides its rows.
PreferenceOptions options_for(lua_State* L, const Policy& policy, const Json& data,
                              const Json& options, BuildLines& lines) {
  PreferenceOptions result = read_options(L, options, data);
  const ModelConfig model = read_model_config(policy.dir());
  if (result.max_length == 0) result.max_length = model.max_length;
  result.vocab_limit = model.vocab;
  result.notice = [L](const std::string& line) { session_of(L).console->print(line); };
  result.progress = [L, &lines](const BuildProgress& now) {
    // The total is not known before the file is read; the share of its bytes stands for it.
    const double total = now.fraction > 0 ? static_cast<double>(now.rows) / now.fraction : 0;
    if (now.hashing) {
      lines.hashing.update(static_cast<int64_t>(100 * now.fraction), 100);
    } else {
      lines.caching.update(now.rows, static_cast<int64_t>(total));
    }
    check_interrupt(L);
  };
  return result;
}

std::shared_ptr<PreferenceData> open_set(lua_State* L, const std::shared_ptr<Policy>& policy,
                                         const Json& data, const Json& options) {
  Session& session = session_of(L);
  const std::string name = read_sources(data)[0].path;
  const Json setting = option_or_config(options, L, "template");
  const ResolvedTemplate chosen =
      resolve_template(*policy->tokenizer(), setting.is_string() ? setting.as_string() : "auto",
                       template_date(session));
  policy->use_template(chosen.chat_template);  // an export carries it
  if (!chosen.notice.empty()) session.notices.push_back(chosen.notice);
  BuildLines lines{{*session.console, "reading " + name, "%"},
                   {*session.console, "caching " + name, "rows"}};
  auto result = std::make_shared<PreferenceData>(
      PreferenceData{PreferenceSet::open(options_for(L, *policy, data, options, lines),
                                         *policy->tokenizer(), *chosen.chat_template),
                     policy, name, options});
  if (const Json seed = option_or_config(options, L, "seed"); !seed.is_null()) {
    result->seed = static_cast<uint64_t>(seed.as_int());
  }
  if (const Json v = option_or_config(options, L, "shuffle"); v.is_bool()) {
    result->shuffle = v.as_bool();
  }
  const Ledger& ledger = result->set.ledger();
  session.ledger_text += ledger.text();
  for (const SourceLedger& source : ledger.sources) session.ledger.sources.push_back(source);
  note_input(session, identity_of(session, *result));
  return result;
}

int open_preference(lua_State* L) {
  const Json data = to_json(L, 1);
  const auto policy = arg<std::shared_ptr<Policy>>(L, 2, "policy");
  const Options known(L, 3,
                      {"template", "max_length", "over_length", "train_on", "strict", "laws",
                       "mixture", "seed", "shuffle"});
  const Json options = lua_istable(L, 3) ? to_json(L, 3, false) : Json::object();
  for (const auto& [name, value] : options.as_object()) check_fields(value, name);
  push(L, open_set(L, policy, data, options));
  return 1;
}

std::shared_ptr<PreferenceData> part_of(const PreferenceData& whole, PreferenceSet set) {
  PreferenceData part = whole;
  part.set = std::move(set);
  return std::make_shared<PreferenceData>(std::move(part));
}

// split{ fraction, by } cuts rows off; split{ data } opens another set by the same settings.
int split_set(PreferenceData& self, lua_State* L) {
  const Options options(L, 2, {"fraction", "every", "by", "data"});
  const Json valid = lua_istable(L, 2) ? to_json(L, 2) : Json::object();
  check_fields(valid, "valid");
  const Json* data = valid.find("data");
  if (data != nullptr && data->size() > 0) {
    XRUN_CHECK(options.get<double>("fraction", 0.0) == 0,
               "valid has both fraction and data; give one of them");
    push(L, part_of(self, self.set));
    push(L, open_set(L, self.policy, *data, self.options));
    return 2;
  }
  auto [train, valid_set] = self.set.split(options.get<double>("fraction", 0.0),
                                           parse_split_by(options.get<std::string>("by", "row")));
  push(L, part_of(self, std::move(train)));
  push(L, part_of(self, std::move(valid_set)));
  return 2;
}

std::string describe_set(const PreferenceData& data) {
  return fmt::format("Preference {} ({} rows)", data.name, data.set.size());
}

}  // namespace

void open_preference(LuaState& state) {
  Class<PreferenceData>(state, "Preference",
                        "A set of preference pairs, or a split of one: "
                        "tokenised, cached, counted.")
      .method("split", "(valid) -> Preference, Preference",
              "Training and validation rows: { fraction = 0.1, by = \"row\" } "
              "takes the last rows, by = \"prompt\" keeps prompts apart, data "
              "= {...} opens other files.",
              split_set)
      .method("place", "(i) -> string",
              "File and line of the i-th row of this split, counted from 0.",
              [](PreferenceData& self, lua_State* L) {
                push(L, self.set.place(self.set.row(arg<int64_t>(L, 2, "i"))));
                return 1;
              })
      .method("verify", "()", "Checks every byte of the caches.",
              [](PreferenceData& self, lua_State*) {
                self.set.verify();
                return 0;
              })
      .property("size", "number", "Rows of this split.",
                [](PreferenceData& self, lua_State* L) {
                  push(L, self.set.size());
                  return 1;
                })
      .property("ledger", "table", "Rows in, kept, dropped by reason, cut and repaired, by source.",
                [](PreferenceData& self, lua_State* L) {
                  push(L, self.set.ledger().to_json());
                  return 1;
                })
      .metamethod("__len", "#set -> number", "Rows of this split.",
                  [](PreferenceData& self, lua_State* L) {
                    push(L, self.set.size());
                    return 1;
                  })
      .tostring(describe_set);
  state.function("preference", "(data, policy, options?) -> Preference",
                 "Opens preference rows: renders, tokenises and caches them for the "
                 "policy. Options override the configuration's template, max_length, "
                 "over_length, train_on, strict, laws, mixture, seed, shuffle.",
                 open_preference);
}

}  // namespace xrun
