// The first rank builds the caches; the others find them.

#include "lua/bind/data/open_set.h"

#include <optional>

#include "core/base/error.h"
#include "core/console/terminal/progress.h"
#include "core/data/rows/row_encoder.h"
#include "core/dist/agreement.h"
#include "core/model/weights/hf_config.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/data_batch.h"
#include "core/train/models/policy.h"
#include "lua/bind/data/choices.h"
#include "lua/bind/data/data_config.h"
#include "lua/bind/session.h"
#include "lua/bind/type_settings.h"

namespace xrun {

namespace {

// A resume compares the content of the caches and the settings that made them.
SessionInputs::Input identity_of(const Session& session, const DataHandle& data) {
  size_t number = 1;
  for (const SessionInputs::Input& input : session.data.inputs)
    number += input.kind == "data" ? 1 : 0;
  Json identity(Json::Object{
      {"name", data.name}, {"digest", data.set.fingerprint()}, {"keys", data.set.key_documents()}});
  return {"data", std::to_string(number), fmt::format("data set {} ({})", number, data.name),
          std::move(identity)};
}

// The progress of an opened set: its files are hashed, then cached if they are not yet.
struct BuildLines {
  TaskProgress hashing;
  TaskProgress caching;
};

// The options of a set besides its rows.
DataOptions options_for(lua_State* L, RowKind kind, const Policy& policy, const Json& data,
                        const Json& options, const DataFunctions& functions, BuildLines& lines) {
  DataOptions result = read_data_options(L, kind, options, data);
  functions.apply_to(result);
  if (const Json* length = options.find("max_length"); length != nullptr && length->is_int()) {
    check_max_length(L, length->as_int(), policy);
  }
  const ModelConfig model = read_model_config(policy.dir());
  int64_t& max_length = result.settings.max_length;
  result.settings.model_length = model.max_length;
  max_length = max_length == kUnlimitedLength ? 0 : max_length == 0 ? model.max_length : max_length;
  result.vocab_limit = model.vocab;
  result.workers = recipe_context(L).options.threads;
  result.notice = [L](const std::string& line) { session_of(L).console->print_escaped(line); };
  result.progress = [L, &lines](const BuildProgress& now) {
    // The total is not known before the file is read; the share of its bytes approximates it.
    const double total = now.fraction > 0 ? static_cast<double>(now.rows) / now.fraction : 0;
    if (now.hashing) {
      lines.hashing.update(static_cast<int64_t>(100 * now.fraction), 100);
    } else {
      lines.caching.update(now.rows, static_cast<int64_t>(total));
    }
    check_stop(L);
  };
  return result;
}

std::shared_ptr<const ChatTemplate> choose_template(lua_State* L, RowKind kind, Policy& policy,
                                                    const Json& options,
                                                    const DataFunctions& functions) {
  // With a function for every source no template is resolved; an export cannot contain a function.
  if (!uses_template(kind) || functions.chat_template.all) return nullptr;
  Session& session = session_of(L);
  const Json setting = option_or_config(options, L, "template");
  const bool allow_unmarked = kind == RowKind::kPrompts;  // nothing of a prompt is trained
  const ResolvedTemplate chosen = resolve_template(
      *policy.tokenizer(),
      local_input(L, InputKind::kTemplate, setting.is_string() ? setting.as_string() : "auto"),
      template_date(L), allow_unmarked);
  policy.use_template(chosen.chat_template);  // an export contains it
  session.notices.add(chosen.notice);
  return chosen.chat_template;
}

void add_ledger(Session& session, const DataSet& set) {
  session.data.ledger_text += set.ledger().text();
  for (const SourceLedger& source : set.ledger().sources)
    session.data.ledger.sources.push_back(source);
  for (const std::filesystem::path& dir : set.cache_dirs()) session.data.cache_dirs.push_back(dir);
}

}  // namespace

std::shared_ptr<DataHandle> open_set(lua_State* L, RowKind kind,
                                     const std::shared_ptr<Policy>& policy, const Json& data,
                                     const Json& options, const DataFunctions& functions) {
  Session& session = session_of(L);
  const std::vector<DataSource> sources = read_data_sources(data);
  const std::string name = sources.size() == 1
                               ? sources[0].path
                               : fmt::format("{} and {} more", sources[0].path, sources.size() - 1);
  const auto chat_template = choose_template(L, kind, *policy, options, functions);
  session.notices.add(policy->tokenizer()->notice());
  BuildLines lines{{*session.console, "reading " + name, "%"},
                   {*session.console, "caching " + name, "rows"}};
  std::optional<DataSet> set;
  const auto open = [&] {
    set.emplace(DataSet::open(options_for(L, kind, *policy, data, options, functions, lines),
                              *policy->tokenizer(), chat_template));
  };
  // The first rank builds the caches, and the others then find them.
  on_first_rank(session_ranks(L), "caching " + name, open);
  agree(session_ranks(L), "opening " + name, [&] {
    if (!set) open();
  });
  auto result = std::make_shared<DataHandle>(DataHandle{std::move(*set), policy, name});
  result->options = options;
  result->functions = functions;
  result->extra = std::make_shared<const ExtraColumns>(result->set);
  if (const Json seed = option_or_config(options, L, "seed"); !seed.is_null()) {
    result->seed = static_cast<uint64_t>(seed.as_int());
  }
  const Json max_length = option_or_config(options, L, "max_length");
  result->max_length =
      max_length.is_null() ? read_model_config(policy->dir()).max_length : max_length.as_int();
  result->order = read_order(option_or_config(options, L, "shuffle"));
  if (functions.choices) check_choices_fit(L, *result);
  add_ledger(session, result->set);
  note_input(session, identity_of(session, *result));
  return result;
}

}  // namespace xrun
