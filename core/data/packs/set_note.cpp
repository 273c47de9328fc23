#include "core/data/packs/set_note.h"

#include <charconv>

#include "core/base/error.h"
#include "core/data/rows/row_encoder.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

namespace {

// A note is believed as far as nothing spins or overflows: what is beyond has no note.
constexpr int64_t kMostCount = int64_t{1} << 31;  // of units, epochs, rows of a block, tokens
constexpr size_t kMostParts = 64;                 // each takes time in proportion to the rows

int64_t read_number(const Json& value, int64_t least, int64_t most = kMostCount) {
  const int64_t number = value.as_int();
  XRUN_CHECK(number >= least && number <= most, "a note says {}, wanted {} to {}", number, least,
             most);
  return number;
}

uint64_t read_seed(const std::string& text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  XRUN_CHECK(error == std::errc() && end == text.data() + text.size(), "{} is no seed", text);
  return seed;
}

Json source_json(const DataSource& source) {
  Json fields = Json::array(), keep = Json::array();
  for (const auto& [ours, theirs] : source.fields) fields.push_back(Json::Array{ours, theirs});
  for (const std::string& name : source.keep) keep.push_back(name);
  return Json(Json::Object{{"path", source.path},
                           {"weight", source.weight},
                           {"name", source.name},
                           {"fields", std::move(fields)},
                           {"keep", std::move(keep)}});
}

DataSource read_source(const Json& value) {
  DataSource source;
  source.path = value.at("path").as_string();
  source.weight = value.at("weight").as_double();
  source.name = value.at("name").as_string();
  for (const Json& field : value.at("fields").as_array()) {
    const Json::Array& names = field.as_array();
    XRUN_CHECK(names.size() == 2, "a field has {} names, wanted 2", names.size());
    source.fields.emplace_back(names[0].as_string(), names[1].as_string());
  }
  for (const Json& name : value.at("keep").as_array()) source.keep.push_back(name.as_string());
  return source;
}

Json options_json(const DataOptions& options) {
  Json sources = Json::array(), laws = Json::array(), stages = Json::array();
  for (const DataSource& source : options.sources) sources.push_back(source_json(source));
  for (const std::string& law : options.disabled_laws) laws.push_back(law);
  for (const MixtureStage& stage : options.stages) {
    Json weights = Json::array();
    for (const double weight : stage.weights) weights.push_back(weight);
    stages.push_back(Json::Object{{"start", stage.start}, {"weights", std::move(weights)}});
  }
  const RowSettings& settings = options.settings;
  return Json(Json::Object{{"kind", static_cast<int64_t>(options.kind)},
                           {"sources", std::move(sources)},
                           {"template_kwargs", settings.template_kwargs},
                           {"max_length", settings.max_length},
                           {"over_length", static_cast<int64_t>(settings.over_length)},
                           {"train_on", static_cast<int64_t>(settings.train_on)},
                           {"train_on_given", settings.train_on_given},
                           {"end_of_text", settings.end_of_text},
                           {"laws_off", std::move(laws)},
                           {"strict", options.strict},
                           {"max_bad", options.max_bad},
                           {"vocab_limit", options.vocab_limit},
                           {"stop", static_cast<int64_t>(options.stop)},
                           {"stages", std::move(stages)},
                           {"cache_root", options.cache_root.string()},
                           {"segment_bytes", static_cast<int64_t>(options.shard_bytes)}});
}

// A number that stands for a value of an enumeration whose last one is `last`.
template <typename Enum>
Enum read_enum(const Json& value, Enum last) {
  const int64_t number = value.as_int();
  XRUN_CHECK(number >= 0 && number <= static_cast<int64_t>(last), "{} stands for nothing", number);
  return static_cast<Enum>(number);
}

DataOptions read_options(const Json& value) {
  DataOptions options;
  options.kind = read_enum(value.at("kind"), RowKind::kFeedback);
  for (const Json& source : value.at("sources").as_array()) {
    options.sources.push_back(read_source(source));
  }
  RowSettings& settings = options.settings;
  settings.template_kwargs = value.at("template_kwargs");
  settings.max_length = read_number(value.at("max_length"), 0);
  settings.over_length = read_enum(value.at("over_length"), OverLength::kCut);
  settings.train_on = read_enum(value.at("train_on"), TrainOn::kAll);
  settings.train_on_given = value.at("train_on_given").as_bool();
  settings.end_of_text = value.at("end_of_text").as_bool();
  for (const Json& law : value.at("laws_off").as_array()) {
    options.disabled_laws.push_back(law.as_string());
  }
  options.strict = value.at("strict").as_bool();
  options.max_bad = value.at("max_bad").as_double();
  options.vocab_limit = read_number(value.at("vocab_limit"), 0);
  options.stop = read_enum(value.at("stop"), MixtureStop::kAll);
  for (const Json& stage : value.at("stages").as_array()) {
    MixtureStage& added = options.stages.emplace_back();
    added.start = read_number(stage.at("start"), 0);
    for (const Json& weight : stage.at("weights").as_array()) {
      added.weights.push_back(weight.as_double());
    }
  }
  options.cache_root = value.at("cache_root").as_string();
  options.shard_bytes =
      static_cast<uint64_t>(read_number(value.at("segment_bytes"), 1, int64_t{1} << 62));
  return options;
}

}  // namespace

Json to_json(const SetNote& note) {
  Json parts = Json::array();
  for (const SetNote::Part& part : note.parts) {
    parts.push_back(Json::Object{{"fraction", part.fraction},
                                 {"by", static_cast<int64_t>(part.by)},
                                 {"second", part.second}});
  }
  return Json(Json::Object{{"options", options_json(note.options)},
                           {"template", note.chat_template},
                           {"date", note.date},
                           {"parts", std::move(parts)},
                           {"window", note.window}});
}

SetNote read_set_note(const Json& value) {
  SetNote note;
  note.options = read_options(value.at("options"));
  note.chat_template = value.at("template").as_string();
  note.date = value.at("date").as_string();
  for (const Json& part : value.at("parts").as_array()) {
    note.parts.push_back({part.at("fraction").as_double(),
                          read_enum(part.at("by"), SplitBy::kPrompt), part.at("second").as_bool()});
  }
  XRUN_CHECK(note.parts.size() <= kMostParts, "a set split {} times", note.parts.size());
  note.window = read_number(value.at("window"), 0);
  return note;
}

DataSet open_noted_set(const SetNote& note, const Tokenizer& tokenizer) {
  std::shared_ptr<const ChatTemplate> chat_template;
  if (uses_template(note.options.kind)) {
    const bool allow_unmarked = note.options.kind == RowKind::kPrompts;
    chat_template =
        resolve_template(tokenizer, note.chat_template, note.date, allow_unmarked).chat_template;
  }
  DataOptions options = note.options;
  options.only_cached = true;
  DataSet set = DataSet::open(options, tokenizer, chat_template);
  for (const SetNote::Part& part : note.parts) {
    auto [first, second] = set.split(part.fraction, part.by);
    set = part.second ? std::move(second) : std::move(first);
  }
  return note.window > 0 ? set.in_windows(note.window) : set;
}

Json to_json(const StepPlan& plan) {
  return Json(Json::Object{{"units", plan.units},
                           {"epochs", plan.epochs},
                           {"order", static_cast<int64_t>(plan.order.kind)},
                           {"block", plan.order.block},
                           {"window", plan.order.window},
                           {"seed", std::to_string(plan.seed)}});
}

StepPlan read_step_plan(const Json& value) {
  StepPlan plan;
  plan.units = read_number(value.at("units"), 1);
  plan.epochs = read_number(value.at("epochs"), 0);
  plan.order.kind = read_enum(value.at("order"), RowOrder::Kind::kBlock);
  plan.order.block = read_number(value.at("block"), 1);
  plan.order.window = read_number(value.at("window"), 1);
  plan.seed = read_seed(value.at("seed").as_string());
  return plan;
}

}  // namespace xrun
