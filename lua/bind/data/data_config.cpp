// Reads the data, mixture, shuffle and batch settings; an option of a set overrides the
// configuration.

#include "lua/bind/data/data_config.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/config/config_field.h"
#include "core/data/packs/mixture.h"
#include "core/data/rows/byte_stream.h"
#include "core/data/rows/row_encoder.h"
#include "lua/bind/data/data_handle.h"
#include "lua/bind/recipe.h"

namespace xrun {

namespace {

DataSource read_source(const Json& entry) {
  DataSource source;
  source.path = entry.at("path").as_string();
  if (const Json* weight = entry.find("weight")) source.weight = weight->as_double();
  if (const Json* name = entry.find("name")) source.name = name->as_string();
  if (const Json* quota = entry.find("quota"); quota && quota->is_object()) {
    const Json *rows = quota->find("rows"), *tokens = quota->find("tokens");
    // With both it would be unclear which one ends the source.
    if ((rows == nullptr) == (tokens == nullptr)) {
      throw UsageError(fmt::format("quota of {}: got {}, wanted {{ rows = N }} or {{ tokens = N }}",
                                   source.path, dump_json(*quota)));
    }
    if (rows != nullptr) source.quota_rows = rows->as_int();
    if (tokens != nullptr) source.quota_tokens = tokens->as_int();
  }
  if (const Json* fields = entry.find("fields"); fields && fields->is_object()) {
    for (const auto& [ours, theirs] : fields->as_object()) {
      if (!theirs.is_string()) {
        throw UsageError(
            fmt::format("fields.{}: got {}, wanted the column's name", ours, dump_json(theirs)));
      }
      source.fields.emplace_back(ours, theirs.as_string());
    }
  }
  if (const Json* keep = entry.find("keep")) {
    for (const Json& column : keep->as_array()) {
      if (!column.is_string()) {
        throw UsageError(fmt::format("keep: got {}, wanted a column's name", dump_json(column)));
      }
      source.keep.push_back(column.as_string());
    }
  }
  return source;
}

}  // namespace

Json option_or_config(const Json& options, lua_State* L, const char* name) {
  // The call, then the recipe's config, then the declared default.
  if (const Json* value = options.find(name)) return *value;
  const Json* value = recipe_context(L).config.find(name);
  return value == nullptr ? default_value(name) : *value;
}

std::vector<DataSource> read_data_sources(const Json& data) {
  if (!data.is_array() || data.size() == 0) {
    throw UsageError(
        fmt::format("data: got {}, wanted a list of sources: {{ {{ path = \"rows.jsonl\" }} }}",
                    (data.is_array() || data.is_object()) && data.size() == 0 ? "an empty table"
                                                                              : dump_json(data)));
  }
  check_fields(data, "data");
  std::vector<DataSource> sources;
  for (const Json& entry : data.as_array()) sources.push_back(read_source(entry));
  return sources;
}

namespace {

void read_mixture(const Json& mixture, DataOptions& result) {
  if (!mixture.is_object()) return;
  // Absent keys keep the defaults of DataOptions.
  if (const Json* stop = mixture.find("stop"); stop && stop->is_string()) {
    result.stop = parse_mixture_stop(stop->as_string());
  }
  if (const Json* order = mixture.find("order"); order && order->is_string()) {
    result.order = parse_mixture_order(order->as_string());
  }
  const Json* stages = mixture.find("stages");
  if (stages == nullptr || stages->size() == 0) return;
  result.stages = read_stages(*stages);
  for (size_t s = 0; s < result.sources.size(); ++s) {
    // 1 is the default; whether it was also written cannot be seen here.
    if (result.sources[s].weight != 1) {
      throw UsageError(fmt::format(
          "data[{}].weight is {}, and mixture.stages has weights too; remove one of them", s + 1,
          result.sources[s].weight));
    }
  }
}

// Reads the template's arguments for every row; a row's own arguments override them.
Json read_template_kwargs(const Json& kwargs, RowKind kind) {
  if (!uses_template(kind)) {
    throw UsageError(
        fmt::format("template_kwargs: {} rows use no template; remove it", row_kind_name(kind)));
  }
  if (!kwargs.is_object()) {
    throw UsageError(
        fmt::format("template_kwargs: got {}, wanted a table of named values", dump_json(kwargs)));
  }
  for (const auto& [name, value] : kwargs.as_object()) {
    // Training renders whole conversations and sampling open ones: a fixed value breaks one of
    // them.
    if (name == "add_generation_prompt" || is_reserved_argument(name)) {
      throw UsageError(
          fmt::format("template_kwargs may not set \"{}\", which the engine decides", name));
    }
  }
  return kwargs;
}

// Compares only the paths: an empty table from Lua may be a list or an object.
bool same_paths(const Json& a, const Json& b) {
  const auto same = [](const Json& x, const Json& y) {
    const Json* const p = x.is_object() ? x.find("path") : nullptr;
    const Json* const q = y.is_object() ? y.find("path") : nullptr;
    return p != nullptr && q != nullptr && *p == *q;
  };
  return a.is_array() && b.is_array() && std::ranges::equal(a.as_array(), b.as_array(), same);
}

}  // namespace

std::vector<MixtureStage> read_stages(const Json& stages) {
  std::vector<MixtureStage> result;
  for (const Json& entry : stages.as_array()) {
    MixtureStage& stage = result.emplace_back();
    stage.start = entry.at("start").as_int();
    for (const Json& weight : entry.at("weights").as_array()) {
      stage.weights.push_back(weight.as_double());
    }
  }
  return result;
}

RowOrder read_order(const Json& shuffle) {
  RowOrder order;
  if (shuffle.is_bool() && !shuffle.as_bool()) order.kind = RowOrderKind::kFile;
  if (!shuffle.is_object()) return order;
  order.kind = RowOrderKind::kBlock;
  if (const Json* block = shuffle.find("block")) order.block = block->as_int();
  if (const Json* window = shuffle.find("window")) order.window = window->as_int();
  return order;
}

DataOptions read_data_options(lua_State* L, RowKind kind, const Json& options, const Json& data) {
  DataOptions result;
  result.kind = kind;
  result.sources = read_data_sources(data);
  for (DataSource& source : result.sources) {
    const std::string local = local_input(L, InputKind::kData, source.path);
    // Outside of a bundle nothing has moved.
    if (local == source.path) continue;
    // Metrics are named by the file that the recipe names, not by the one that is read.
    if (source.name.empty()) {
      source.name = std::filesystem::path(content_name(source.path)).stem().string();
    }
    source.path = local;
  }
  // Messages offer --set where the sources are those of the configuration.
  for (const char* path : {"data", "valid.data"}) {
    const Json* configured = recipe_context(L).config.find(path);
    if (configured != nullptr && same_paths(*configured, data)) result.config_path = path;
  }
  RowSettings& settings = result.settings;
  const auto value = [&](const char* name) { return option_or_config(options, L, name); };
  if (const Json v = value("max_length"); !v.is_null()) settings.max_length = v.as_int();
  settings.over_length = parse_over_length(value("over_length").as_string());
  // "assistant" is the default of conversations; text and tokens have all.
  if (const Json v = value("train_on"); v.is_string()) {
    settings.train_on = parse_train_on(v.as_string());
    settings.train_on_given = true;
  }
  settings.end_of_text = value("end_of_text").as_bool();
  result.strict = value("strict").as_bool();
  result.max_bad = value("max_bad").as_double();
  if (const Json v = value("laws"); v.is_object()) {
    for (const auto& [law, on] : v.as_object()) {
      if (!on.as_bool()) result.disabled_laws.push_back(law);
    }
  }
  read_mixture(value("mixture"), result);
  if (const Json* kwargs = options.find("template_kwargs")) {
    settings.template_kwargs = read_template_kwargs(*kwargs, kind);
  }
  // Windows cut documents themselves, so a document longer than max_length is legal.
  if (cuts_windows(kind, config_sizes(L))) settings.max_length = kUnlimitedLength;
  return result;
}

FoldSettings read_fold(const Json& batch) {
  const auto value = [&](const char* name) {
    const Json* given = batch.find(name);
    return given == nullptr ? default_value(std::string("batch.") + name) : *given;
  };
  FoldSettings fold;
  const Json mode = value("fold");
  fold.mode = mode.is_string() ? FoldMode::kAuto
              : mode.as_bool() ? FoldMode::kAlways
                               : FoldMode::kNever;
  if (!fold.folds()) fold.off = "batch.fold is false";
  fold.min_run = value("fold_min").as_int();
  const std::string weight = value("fold_weight").as_string();
  fold.rows = weight == "branch_mean" ? SharedRows::kBranchMean
              : weight == "own_once"  ? SharedRows::kOwnOnce
                                      : SharedRows::kPerSample;
  return fold;
}

BatchSizes config_sizes(lua_State* L) {
  BatchSizes sizes;
  sizes.tokens = config_whole(L, "batch.tokens");
  sizes.max_tokens = config_whole(L, "batch.max_tokens");
  const Json* batch = recipe_context(L).config.find("batch");
  sizes.fold = read_fold(batch == nullptr ? Json::object() : *batch);
  // A pack that fits only when folded is folded, however little that saves.
  sizes.fold.max_tokens = sizes.max_tokens;
  return sizes;
}

bool cuts_windows(RowKind kind, const BatchSizes& sizes) {
  return sizes.tokens > 0 && (kind == RowKind::kText || kind == RowKind::kTokens);
}

DataSet windows_of(const DataHandle& data, const BatchSizes& sizes) {
  return data.set.in_windows(std::min({data.max_length, sizes.tokens, sizes.max_tokens}));
}

}  // namespace xrun
