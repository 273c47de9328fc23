// xrun.preference: rows of pairs through template, tokenizer and cache, and their splits.

#include "lua/bind/preference.h"

#include "core/base/error.h"
#include "core/console/progress.h"
#include "core/model/hf_config.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "core/train/policy.h"
#include "core/train/preference_batch.h"
#include "lua/bind/args.h"
#include "lua/bind/field_check.h"
#include "lua/bind/modules.h"
#include "lua/bind/preference_options.h"
#include "lua/bind/session.h"

namespace xrun {

namespace {

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
  PreferenceOptions result = read_preference_options(L, options, data);
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
  const std::string name = read_preference_sources(data)[0].path;
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
                     policy, name, nullptr, options});
  result->kept = std::make_shared<const KeptColumns>(result->set);
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
                        "A set of preference pairs, or a split of one: tokenised, cached, counted.")
      .method("split", "(valid) -> Preference, Preference",
              "Training and validation rows: { fraction = 0.1, by = \"row\" } takes the last "
              "rows, by = \"prompt\" keeps prompts apart, data = {...} opens other files.",
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
                 "Opens preference rows: renders, tokenises and caches them for the policy. "
                 "Options override the configuration's template, max_length, over_length, "
                 "train_on, strict, laws, mixture, seed, shuffle.",
                 open_preference);
}

}  // namespace xrun
