// xrun.preference, xrun.chat, ...: opens rows, splits them, and shows single ones.

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/config/config_field.h"
#include "core/data/cache/row_columns.h"
#include "core/data/rows/row_encoder.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/models/policy.h"
#include "lua/bind/data/align.h"
#include "lua/bind/data/data_handle.h"
#include "lua/bind/data/open_set.h"
#include "lua/bind/modules.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"
#include "lua/state/doc.h"

namespace xrun {

namespace {

// Settings of a source are not options of the set.
void refuse_source_options(lua_State* L, int i) {
  if (!lua_istable(L, i)) return;
  for (const std::string& name : config_field_names("data[]")) {
    const StackGuard guard(L);
    lua_getfield(L, i, name.c_str());
    if (lua_isnil(L, -1)) continue;
    throw UsageError(
        fmt::format("`{0}` is not an option but a field of each source: data = {{ {{ path = ..., "
                    "{0} = ... }} }}",
                    name));
  }
}

template <RowKind kind, bool choices = false>
int open_rows(lua_State* L) {
  const Json data = to_json(L, 1);
  const auto policy = arg<std::shared_ptr<Policy>>(L, 2, "policy");
  refuse_source_options(L, 3);
  const Options known(L, 3);
  DataFunctions functions = read_data_functions(L, 3);
  functions.choices = choices;
  const Json options = plain_options(L, 3);
  for (const auto& [name, value] : options.as_object()) check_fields(value, name);
  push(L, open_set(L, kind, policy, data, options, functions));
  return 1;
}

// The same handle over other rows of its set.
std::shared_ptr<DataHandle> with_rows(const DataHandle& whole, DataSet rows) {
  DataHandle handle = whole;
  handle.set = std::move(rows);
  return std::make_shared<DataHandle>(std::move(handle));
}

// Opens another set with the settings of this one. Its mixture is ignored: an evaluation takes
// every row once.
std::shared_ptr<DataHandle> open_valid(const DataHandle& self, lua_State* L, const Json& data) {
  Json options = self.options;
  options.set("mixture", Json::object());
  const DataFunctions functions = self.functions.for_other_files(self.set.ledger().sources.size());
  return open_set(L, self.set.kind(), self.policy, data, options, functions);
}

// split{ fraction, by } cuts rows off; split{ data } opens another set by the same settings.
int split_set(DataHandle& self, lua_State* L) {
  const Options options(L, 2);
  const Json valid = lua_istable(L, 2) ? to_json(L, 2) : Json::object();
  check_fields(valid, "valid");
  const Json* data = valid.find("data");
  if (data != nullptr && data->size() > 0) {
    if (const double fraction = options.get<double>("fraction", 0.0); fraction != 0) {
      throw UsageError(fmt::format(
          "valid has both fraction = {:g} and data; --set valid.fraction=0 takes the data alone",
          fraction));
    }
    push(L, with_rows(self, self.set));
    auto other = open_valid(self, L, *data);
    other->align = self.align;
    if (self.align) other->set = self.align(other->set);
    push(L, std::move(other));
    return 2;
  }
  const auto fraction = options.get<double>("fraction", 0.0);
  const SplitBy by = parse_split_by(options.get<std::string>("by", "row"));
  auto [train, valid_set] = self.set.split(fraction, by);
  // A source with a single row trains it, beside other sources too.
  const bool by_row = by == SplitBy::kRow || valid_set.size() == 0;
  for (const SourceLedger& source : self.set.ledger().sources) {
    if (fraction <= 0 || !by_row || source.kept != 1) continue;
    const bool text =
        std::any_of(source.files.begin(), source.files.end(),
                    [](const std::string& file) { return file.find(".txt") != std::string::npos; });
    session_of(L).notices.add(fmt::format(
        "valid.fraction = {} holds out nothing{}: {} has 1 row, which is trained{}; valid.data = "
        "{{ {{ path = ... }} }} takes other files",
        fraction, valid_set.size() > 0 ? " of a source" : "", source.name,
        text ? " (rows of a .txt file are separated by blank lines)" : ""));
  }
  push(L, with_rows(self, std::move(train)));
  push(L, with_rows(self, std::move(valid_set)));
  return 2;
}

std::string describe_set(const DataHandle& data) {
  return fmt::format("DataSet {} ({} {}s)", data.name, data.set.size(), data.set.unit_name());
}

int push_aligned(DataHandle& self, lua_State* L) {
  push(L, align_set(L, self, 2));
  return 1;
}

int push_size(DataHandle& self, lua_State* L) {
  push(L, self.set.size());
  return 1;
}

int push_ledger(DataHandle& self, lua_State* L) {
  push(L, self.set.ledger().to_json());
  return 1;
}

int verify_caches(DataHandle& self, lua_State*) {
  self.set.verify();
  return 0;
}

int row_location(DataHandle& self, lua_State* L) {
  push(L, self.set.location(self.set.unit(arg<int64_t>(L, 2, "i"))));
  return 1;
}

// Scripts may still use the name that `location` had.
int refuse_old_name(DataHandle&, const std::string& name, lua_State*) {
  XRUN_CHECK(name != "place", "DataSet has no method `place`; it is now `location`");
  return 0;
}

// The i-th row as its cache holds it.
int row_of(DataHandle& self, lua_State* L) {
  const int64_t row = self.set.unit(arg<int64_t>(L, 2, "i"));
  Json table(Json::Object{{"location", self.set.location(row)}, {"weight", self.set.weight(row)}});
  const std::vector<std::string> names = stream_names(self.set.kind());
  for (size_t s = 0; s < names.size(); ++s) {
    const TokenStream tokens = self.set.stream(row, s);
    Json ids = Json::array(), mask = Json::array();
    for (const int32_t id : tokens.ids) ids.push_back(id);
    for (const uint8_t flag : tokens.trained) mask.push_back(flag);
    const std::string prefix = names.size() == 1 ? "" : names[s] + "_";
    table.set(prefix + "ids", std::move(ids));
    table.set(prefix + "mask", std::move(mask));
    table.set(prefix + "text", self.policy->tokenizer()->decode(tokens.ids));
  }
  if (self.set.kind() == RowKind::kFeedback) table.set("label", int64_t{self.set.label(row)});
  push(L, table);
  return 1;
}

std::string options_doc() {
  return fmt::format(
      "Options of xrun.chat, xrun.preference and the other openers. {} override the configuration. "
      "template_kwargs = {{ enable_thinking = false }} gives the template arguments for every row, "
      "below the row's own. filter = function(row) -> boolean, map = function(row) -> row and "
      "template = function(t, messages, kwargs) run on worker threads and see only their "
      "arguments; a table gives functions for single sources: map = {{ [2] = f }}.",
      fmt::join(data_set_field_names(), ", "));
}

// Without types and defaults: the config's, which the options override, are the reference.
std::vector<LuaOption> set_options() {
  std::vector<std::string> names = data_set_field_names();
  names.emplace_back("template_kwargs");
  for (const FunctionOption& option : kFunctionOptions) {
    // `template` is a field of the configuration too, where it is a name.
    if (std::find(names.begin(), names.end(), option.name) == names.end()) {
      names.emplace_back(option.name);
    }
  }
  std::vector<LuaOption> options;
  for (const std::string& name : names) options.emplace_back(name, "any");
  return options;
}

template <RowKind kind, bool choices = false>
void add_reader(LuaState& state, const char* doc) {
  state.function(choices ? "choices" : row_kind_name(kind),
                 {{"data", "string|table"},
                  {"policy", "Policy"},
                  {"options?", "DataSetOptions", set_options()}},
                 {"DataSet"}, std::string(doc) + " Options: DataSetOptions.",
                 open_rows<kind, choices>);
}

void add_class(LuaState& state) {
  Class<DataHandle>(state, "DataSet",
                    "Rows of one kind, or a split of them: tokenised, cached, counted.")
      .method(
          "split", {{"valid", "xrun.Config.valid"}}, {{"DataSet", "train"}, {"DataSet", "valid"}},
          "Training and validation rows: { fraction = 0.1, by = \"row\" } takes the last "
          "rows, by = \"prompt\" keeps prompts apart, data = {...} opens other files by the same "
          "options, every row once.",
          split_set)
      .method(
          "align", {{"teacher", "Policy|FrozenModel|Tokenizer"}, align_options_parameter()},
          {"DataSet"},
          "The same rows of text, tokens or chat, whose batches also have the teacher's tokens "
          "and the chunks in which both spell the same bytes. Cached. The teacher reads a "
          "conversation in its own template, or in `template`; max_span and pair_specials as for "
          "xrun.align.",
          push_aligned)
      .method("location", {{"i", "integer"}}, {"string"},
              "File and line of the i-th row of this split, counted from 0.", row_location)
      .method(
          "row", {{"i", "integer"}}, {"table"},
          "The i-th row of this split, counted from 0: location, weight, ids, mask and text (for "
          "pairs chosen_ids, rejected_ids, ...).",
          row_of)
      .method("verify", {}, {}, "Checks every byte of the caches.", verify_caches)
      .property("size", "number", "Rows of this split.", push_size)
      .property("ledger", "table", "Rows in, kept, dropped by reason, cut and repaired, by source.",
                push_ledger)
      .metamethod("__len", {}, {"integer"}, "Rows of this split.", push_size)
      .fallback(refuse_old_name)
      .tostring(describe_set);
}

}  // namespace

void open_data_sets(LuaState& state) {
  register_doc({.name = "DataSetOptions", .kind = DocKind::kClass, .doc = options_doc()});
  add_class(state);
  add_reader<RowKind::kPreference>(
      state, "Opens preference rows: renders, tokenises and caches both sides for the policy.");
  add_reader<RowKind::kChat>(
      state,
      "Opens conversations; their assistant turns are trained (of prompt and completion, "
      "the completion).");
  add_reader<RowKind::kText>(
      state,
      "Opens plain text: documents, ended by the tokenizer's EOS unless end_of_text = "
      "false. With batch.tokens they are read as windows of max_length tokens.");
  add_reader<RowKind::kPrompts>(state, "Opens prompts for a model to answer.");
  add_reader<RowKind::kPrompts, true>(
      state,
      "Opens multiple-choice questions for run:choices: prompts with choices, a list of texts, and "
      "answer, the index of the right one from 0 or its text.");
  add_reader<RowKind::kTokens>(state,
                               "Opens rows of token ids: input_ids, with labels, mask or weights.");
  add_reader<RowKind::kFeedback>(
      state, "Opens answers with a label, true or false: the field `label` of views is 1 or 0.");
}

}  // namespace xrun
