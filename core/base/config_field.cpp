// docs/recipes.md and `xrun explain` are written from this table.

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

std::vector<ConfigField> declare() {
  const double most = std::numeric_limits<double>::infinity();
  const Json none;
  return {
      required(text("model", none, "A folder in Hugging Face form, or a name from `xrun models`.")),
      text("template", "auto",
           "The chat template: \"auto\" is the tokenizer's own (or our tagged variant of it), else "
           "a file or a built-in name such as \"chatml\"."),
      required(of_kind(K::kList, "data", none, "The sources of rows, mixed by weight.")),
      required(text("data[].path", none, "A .jsonl, .json or .txt file, also .gz or .zst; globs.")),
      above_zero("data[].weight", 1, "This source's share of rows, relative to the others."),
      of_kind(K::kTable, "data[].fields", none, "Renames columns: fields = { prompt = \"q\" }."),
      of_kind(K::kList, "data[].keep", Json::array(),
              "Columns that stay with the row and are fields of batches and views."),
      text("data[].name", none, "What ledger and metrics call this source."),
      whole("max_length", none, 1, "Tokens of one sequence; by default the model's limit."),
      text("over_length", "raise",
           "What happens to a row beyond max_length: an error, dropped and counted, or cut (keeps "
           "the prompt and the head of the response).",
           {"raise", "drop", "cut"}),
      text("train_on", none,
           "Which tokens are trained. Chat: \"assistant\"; preferences: the assistant turns after "
           "the shared prompt; text: \"all\".",
           {"assistant", "last", "all"}),
      of_kind(K::kTable, "valid", Json::object(), "What is held out for validation."),
      number("valid.fraction", 0, 0, 1, "The share of rows that is held out."),
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
      of_kind(K::kList, "mixture.stages", none, "Other weights from a step on."),
      whole("seed", 0, 0, "Every random number of the run follows from it."),
      flag("shuffle", true, "Whether each epoch is shuffled; false keeps the files' order."),
      above_zero("epochs", 1, "How often the data is seen; one stream, each epoch reshuffled."),
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
      of_kind(K::kList, "optim.betas", Json(Json::Array{0.9, 0.999}), "Decay of the two moments."),
      above_zero("optim.eps", 1e-8, "Added to the root of the second moment."),
      number("optim.weight_decay", 0, 0, most, "Decoupled; never on 1-D weights."),
      number("optim.clip", 1, 0, most, "The largest norm of the gradient; 0 is off."),
      of_kind(K::kTable, "batch", Json::object(), "What one step takes."),
      whole("batch.pairs", none, 1, "Preference pairs a step."),
      whole("batch.sequences", none, 1, "Sequences a step."),
      whole("batch.prompts", none, 1, "Prompts a step."),
      whole("batch.tokens", none, 1, "Tokens a step: windows of a text stream."),
      whole("batch.max_tokens", 8192, 1,
            "Tokens of one micro-batch; a longer pair or sequence is an error before step 0."),
      of_kind(K::kTable, "save", Json::object(), "When checkpoints are taken."),
      whole("save.every", 0, 0, "Steps between checkpoints; the last step is always saved."),
      whole("save.keep", 2, 1, "How many checkpoints stay."),
      of_kind(K::kFlags, "laws", Json::object(),
              "Template laws that are switched off, as { bos = false }."),
      flag("strict", false, "Any dropped, cut or repaired row is an error."),
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
  if (std::isnan(got) || got > field.most) return false;
  return field.above_least ? got > field.least : got >= field.least;
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

std::string wanted_text(const ConfigField& field) {
  std::string choices;
  for (size_t i = 0; i < field.choices.size(); ++i) {
    const bool last = i + 1 == field.choices.size();
    choices += (i == 0 ? "" : last ? " or " : ", ") + ("\"" + field.choices[i] + "\"");
  }
  switch (field.kind) {
    case K::kText: return choices.empty() ? "text" : choices;
    case K::kFlag: return "true or false";
    case K::kTable: return "a table with named keys";
    case K::kList:
      return field.path == "data" ? "a list of tables, { { path = \"...\" } }" : "a list";
    case K::kFlags: return "a table of name = true or false";
    case K::kAny: return "a value";
    default: break;
  }
  std::string wanted = field.kind == K::kWhole ? "a whole number" : "a number";
  if (field.above_least) {
    wanted += fmt::format(" above {}", field.least);
  } else if (std::isfinite(field.least)) {
    wanted += std::isfinite(field.most) ? fmt::format(" from {} to {}", field.least, field.most)
                                        : fmt::format(" of at least {}", field.least);
  }
  return wanted;
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
    case K::kTable: return value.is_object() || (value.is_array() && value.size() == 0);
    case K::kList: return value.is_array();
    case K::kFlags:
      return (value.is_array() && value.size() == 0) ||
             (value.is_object() &&
              std::all_of(value.as_object().begin(), value.as_object().end(),
                          [](const Json::Member& member) { return member.second.is_bool(); }));
    case K::kAny: return true;
  }
  return false;
}

}  // namespace xrun
