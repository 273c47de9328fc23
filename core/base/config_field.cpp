// docs/lua-api.md and `xrun explain` are written from this table.

#include "core/base/config_field.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace xrun {
namespace {

using K = FieldKind;

ConfigField text(std::string path, Json otherwise, std::string doc,
                 std::vector<std::string> choices = {}) {
  return {.path = std::move(path),
          .kind = K::kText,
          .otherwise = std::move(otherwise),
          .doc = std::move(doc),
          .choices = std::move(choices)};
}

ConfigField whole(std::string path, Json otherwise, double least, std::string doc) {
  return {.path = std::move(path),
          .kind = K::kWhole,
          .otherwise = std::move(otherwise),
          .doc = std::move(doc),
          .least = least};
}

ConfigField number(std::string path, Json otherwise, double least, double most, std::string doc) {
  return {.path = std::move(path),
          .kind = K::kNumber,
          .otherwise = std::move(otherwise),
          .doc = std::move(doc),
          .least = least,
          .most = most};
}

ConfigField above_zero(std::string path, Json otherwise, std::string doc) {
  return {.path = std::move(path),
          .kind = K::kNumber,
          .otherwise = std::move(otherwise),
          .doc = std::move(doc),
          .least = 0,
          .above_least = true};
}

ConfigField flag(std::string path, bool otherwise, std::string doc) {
  return {.path = std::move(path),
          .kind = K::kFlag,
          .otherwise = Json(otherwise),
          .doc = std::move(doc)};
}

ConfigField of_kind(K kind, std::string path, Json otherwise, std::string doc) {
  return {.path = std::move(path),
          .kind = kind,
          .otherwise = std::move(otherwise),
          .doc = std::move(doc)};
}

ConfigField required(ConfigField field) {
  field.required = true;
  return field;
}

ConfigField below(ConfigField field) {
  field.below_most = true;
  return field;
}

// Any number of them.
ConfigField numbers(std::string path, Json otherwise, double least, std::string doc) {
  return {.path = std::move(path),
          .kind = K::kNumbers,
          .otherwise = std::move(otherwise),
          .doc = std::move(doc),
          .least = least};
}

// Two numbers from 0 to below 1.
ConfigField betas(std::string path, Json otherwise, std::string doc) {
  return {.path = std::move(path),
          .kind = K::kNumbers,
          .otherwise = std::move(otherwise),
          .doc = std::move(doc),
          .least = 0,
          .most = 1,
          .below_most = true,
          .elements = 2};
}

std::vector<ConfigField> declare() {
  const double most = std::numeric_limits<double>::infinity();
  const Json none;
  return {
      required(text("model", none, "A folder in Hugging Face form, or a name from `xrun models`.")),
      text("template", "auto",
           "The chat template: \"auto\" is the tokenizer's own (or our tagged variant of it), else "
           "a file or a built-in name such as \"chatml\"."),
      required(of_kind(K::kList, "data", none, "The sources of rows, mixed by weight.")),
      required(text("data[].path", none,
                    "A .jsonl file, one JSON object a line; or a glob: \"pairs/*.jsonl\".")),
      above_zero("data[].weight", 1, "This source's share of rows, relative to the others."),
      of_kind(K::kRenames, "data[].fields", none, "Renames columns: fields = { prompt = \"q\" }."),
      of_kind(K::kTexts, "data[].keep", Json::array(),
              "Columns that stay with the row and are fields of batches and views."),
      text("data[].name", none, "What ledger and metrics call this source."),
      whole("max_length", none, 1, "Tokens of one sequence; by default the model's limit."),
      text("over_length", "raise",
           "What happens to a row beyond max_length: an error, dropped and counted, or cut (keeps "
           "the prompt and the head of the response).",
           {"raise", "drop", "cut"}),
      text("train_on", none,
           "Which tokens are trained: \"assistant\" (the default; of pairs, the assistant turns "
           "after the shared prompt), the \"last\" turn, or \"all\".",
           {"assistant", "last", "all"}),
      flag("end_of_text", true, "Whether a text row ends with the tokenizer's end-of-text token."),
      of_kind(K::kTable, "valid", Json::object(), "What is held out for validation."),
      below(number("valid.fraction", 0, 0, 1, "The share of rows that is held out.")),
      whole("valid.every", 0, 0, "Steps between evaluations, for the recipe's loop; 0: none."),
      text("valid.by", "row",
           "Hold out the last rows, or whole prompts so that none is on both sides.",
           {"row", "prompt"}),
      of_kind(K::kList, "valid.data", none, "Sources of their own for validation."),
      of_kind(K::kTable, "mixture", Json::object(), "How several sources are mixed."),
      text("mixture.stop", "all",
           "When the mixture ends: a source restarts, the first one ends, all "
           "have ended.",
           {"restart", "first", "all"}),
      of_kind(K::kList, "mixture.stages", Json::array(),
              "Weights that change with the step, in place of data[].weight."),
      required(whole("mixture.stages[].start", none, 0,
                     "The step from which the stage's weights hold; 0 for the first.")),
      required(numbers("mixture.stages[].weights", none, 0,
                       "A weight for each source, in the order of data; 0: not drawn.")),
      whole("seed", 0, 0, "Every random number of the run follows from it."),
      of_kind(K::kFlagOrTable, "shuffle", true,
              "Whether each epoch is shuffled; false keeps the files' order, { block = 256, "
              "window = 512 } moves blocks of rows and then rows among neighbouring blocks."),
      whole("shuffle.block", 256, 1, "Consecutive rows that stay close together."),
      whole("shuffle.window", 512, 1, "Blocks whose rows are mixed with each other."),
      whole("epochs", 1, 1, "How often the data is seen; one stream, each epoch reshuffled."),
      whole("steps", none, 1, "How many steps to take; without it epochs decides."),
      text("dtype", none,
           "The compute type: f32 on a CPU, bf16 on a GPU unless it is set; master "
           "weights are always f32.",
           {"f32", "fp32", "float32", "bf16", "bfloat16"}),
      of_kind(K::kTable, "optim", Json::object(), "AdamW and its schedule."),
      required(above_zero("optim.lr", none, "The learning rate after warmup.")),
      text("optim.schedule", "linear", "How the rate falls after warmup.",
           {"constant", "linear", "cosine"}),
      number("optim.warmup", 0, 0, most, "Steps of warmup; below 1 a share of all steps."),
      betas("optim.betas", Json(Json::Array{0.9, 0.999}), "Decay of the two moments."),
      above_zero("optim.eps", 1e-8, "Added to the root of the second moment."),
      number("optim.weight_decay", 0, 0, most, "Decoupled; never on 1-D weights."),
      number("optim.clip", 1, 0, most, "The largest norm of the gradient; 0 is off."),
      of_kind(K::kTable, "batch", Json::object(), "What one step takes."),
      whole("batch.pairs", none, 1, "Preference pairs a step."),
      whole("batch.sequences", none, 1, "Chat, text, token or feedback rows a step."),
      whole("batch.prompts", none, 1, "Prompts a step."),
      whole("batch.tokens", none, 2,
            "Tokens a step of a text stream, cut into windows of max_length tokens."),
      whole("batch.max_tokens", 8192, 1,
            "Tokens of one micro-batch; a longer pair or sequence is an error before step 0."),
      of_kind(K::kTable, "save", Json::object(), "When checkpoints are taken."),
      whole("save.every", 0, 0, "Steps between checkpoints; the last step is always saved."),
      whole("save.keep", 2, 1, "How many checkpoints stay."),
      of_kind(K::kFlags, "laws", Json::object(),
              "Template laws: { bos = false } switches one off."),
      flag("strict", false, "The first dropped, cut or repaired row is an error."),
      number(
          "max_bad", 0.5, 0, 1,
          "Share of bad rows above which a source is refused; those that a filter or over_length "
          "leaves out do not count."),
      whole("head_mb", 1024, 1, "Memory for kept softmax rows; rows beyond it are recomputed."),
  };
}

// "valid.data.12.path" -> "data[].path".
std::string canonical(std::string_view path) {
  std::string out;
  for (size_t at = 0; at <= path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    const std::string_view part = path.substr(at, dot - at);
    const bool index = !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isdigit(c);
    });
    out += index ? "[]" : (out.empty() ? "" : ".") + std::string(part);
    at = dot + 1;
  }
  constexpr std::string_view kValidData = "valid.data[]";
  return out.starts_with(kValidData) ? "data[]" + out.substr(kValidData.size()) : out;
}

bool number_fits(const ConfigField& field, const Json& value) {
  if (!value.is_number()) return false;
  const double got = value.as_double();
  if (!std::isfinite(got) || got > field.most || (field.below_most && got == field.most)) {
    return false;
  }
  return field.above_least ? got > field.least : got >= field.least;
}

bool is_list(const Json& value, const auto& element_fits) {
  return value.is_array() &&
         std::all_of(value.as_array().begin(), value.as_array().end(), element_fits);
}

// A table with named keys; { } is one.
bool is_named(const Json& value, const auto& member_fits) {
  return (value.is_array() && value.size() == 0) ||
         (value.is_object() &&
          std::all_of(value.as_object().begin(), value.as_object().end(),
                      [&](const Json::Member& member) { return member_fits(member.second); }));
}

}  // namespace

const std::vector<ConfigField>& config_fields() {
  static const std::vector<ConfigField> fields = declare();
  return fields;
}

const ConfigField* find_config_field(std::string_view path) {
  const std::string wanted = canonical(path);
  for (const ConfigField& field : config_fields()) {
    if (field.path == wanted) return &field;
  }
  return nullptr;
}

std::vector<std::string> config_field_names(std::string_view path) {
  const std::string prefix = path.empty() ? "" : canonical(path) + ".";
  std::vector<std::string> names;
  for (const ConfigField& field : config_fields()) {
    if (!field.path.starts_with(prefix)) continue;
    const std::string rest = field.path.substr(prefix.size());
    if (!rest.empty() && rest.find('.') == std::string::npos) names.push_back(rest);
  }
  return names;
}

const std::vector<std::string>& batch_counts() {
  static const std::vector<std::string> names = {"pairs", "sequences", "prompts", "tokens"};
  return names;
}

bool takes_free_names(const ConfigField& field) {
  return field.kind == K::kFlags || field.kind == K::kRenames;
}

std::string element_example(std::string_view path) {
  std::string members;
  for (const std::string& name : config_field_names(path)) {
    const ConfigField* field = find_config_field(std::string(path) + "." + name);
    if (field == nullptr || !field->required) continue;
    const char* value = field->kind == K::kText      ? "\"...\""
                        : field->kind == K::kNumbers ? "{ 1, 0.5 }"
                                                     : "0";
    members += fmt::format("{}{} = {}", members.empty() ? "" : ", ", name, value);
  }
  return members.empty() ? "" : "{ " + members + " }";
}

std::string wanted_text(const ConfigField& field) {
  std::string choices;
  for (size_t i = 0; i < field.choices.size(); ++i) {
    const bool last = i + 1 == field.choices.size();
    choices += (i == 0 ? "" : last ? " or " : ", ") + ("\"" + field.choices[i] + "\"");
  }
  std::string range;
  if (field.above_least) {
    range = fmt::format(" above {}", field.least);
  } else if (std::isfinite(field.least) && field.below_most) {
    range = fmt::format(" from {} to below {}", field.least, field.most);
  } else if (std::isfinite(field.least)) {
    range = std::isfinite(field.most) ? fmt::format(" from {} to {}", field.least, field.most)
                                      : fmt::format(" of at least {}", field.least);
  }
  switch (field.kind) {
    case K::kText: return choices.empty() ? "text" : choices;
    case K::kFlag: return "true or false";
    case K::kTable: return "a table with named keys";
    case K::kFlagOrTable: return "true, false or a table with named keys";
    case K::kList: return "a list of tables, { " + element_example(field.path + "[]") + " }";
    case K::kNumbers:
      return fmt::format("a list of {}numbers{}",
                         field.elements == 0 ? "" : fmt::format("{} ", field.elements), range);
    case K::kTexts: return "a list of text, { \"...\" }";
    case K::kRenames: return "a table of name = \"text\"";
    case K::kFlags: return "a table of name = true or false";
    case K::kWhole: return "a whole number" + range;
    case K::kNumber: return "a number" + range;
  }
  return "";
}

bool fits(const ConfigField& field, const Json& value) {
  switch (field.kind) {
    case K::kText:
      return value.is_string() &&
             (field.choices.empty() || std::find(field.choices.begin(), field.choices.end(),
                                                 value.as_string()) != field.choices.end());
    case K::kWhole: return value.is_int() && number_fits(field, value);
    case K::kNumber: return number_fits(field, value);
    case K::kFlag: return value.is_bool();
    case K::kFlagOrTable:
      if (value.is_bool()) return true;
      [[fallthrough]];
    case K::kTable: return is_named(value, [](const Json&) { return true; });
    case K::kList: return value.is_array() && (field.path != "data" || value.size() > 0);
    case K::kNumbers:
      return (field.elements == 0 || value.size() == field.elements) &&
             is_list(value, [&](const Json& element) { return number_fits(field, element); });
    case K::kTexts: return is_list(value, [](const Json& element) { return element.is_string(); });
    case K::kRenames:
      return is_named(value, [](const Json& element) { return element.is_string(); });
    case K::kFlags: return is_named(value, [](const Json& element) { return element.is_bool(); });
  }
  return false;
}

}  // namespace xrun
