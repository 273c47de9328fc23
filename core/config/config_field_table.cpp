// docs/lua-api.md and `xrun explain` are written from this table.

#include <limits>
#include <utility>

#include "core/config/config_defaults.h"
#include "core/config/config_field.h"

namespace xrun {
namespace {

using K = FieldKind;

ConfigField of_kind(K kind, std::string path, Json default_value, std::string doc) {
  return {.path = std::move(path),
          .kind = kind,
          .default_value = std::move(default_value),
          .doc = std::move(doc)};
}

ConfigField text(std::string path, Json default_value, std::string doc,
                 std::vector<std::string> choices = {}) {
  ConfigField field = of_kind(K::kText, std::move(path), std::move(default_value), std::move(doc));
  field.choices = std::move(choices);
  return field;
}

ConfigField flag(std::string path, bool default_value, std::string doc) {
  return of_kind(K::kFlag, std::move(path), Json(default_value), std::move(doc));
}

ConfigField at_least(double least, ConfigField field) {
  field.least = least;
  return field;
}

ConfigField whole(std::string path, Json default_value, double least, std::string doc) {
  return at_least(least, of_kind(K::kWhole, std::move(path), std::move(default_value), std::move(doc)));
}

ConfigField number(std::string path, Json default_value, double least, double most, std::string doc) {
  ConfigField field = of_kind(K::kNumber, std::move(path), std::move(default_value), std::move(doc));
  field.most = most;
  return at_least(least, std::move(field));
}

// Any number of them.
ConfigField numbers(std::string path, Json default_value, double least, std::string doc) {
  return at_least(least,
                  of_kind(K::kNumbers, std::move(path), std::move(default_value), std::move(doc)));
}

ConfigField above_zero(std::string path, Json default_value, std::string doc) {
  ConfigField field = of_kind(K::kNumber, std::move(path), std::move(default_value), std::move(doc));
  field.above_least = true;
  return at_least(0, std::move(field));
}

ConfigField required(ConfigField field) {
  field.required = true;
  return field;
}

ConfigField of_data_set(ConfigField field) {
  field.of_data_set = true;
  return field;
}

ConfigField below(ConfigField field) {
  field.below_most = true;
  return field;
}

// Two numbers from 0 to below 1.
ConfigField betas(std::string path, Json default_value, std::string doc) {
  ConfigField field = numbers(std::move(path), std::move(default_value), 0, std::move(doc));
  field.most = 1;
  field.elements = 2;
  return below(std::move(field));
}

const double kMost = std::numeric_limits<double>::infinity();
const Json kNone;

// Rows, and the way they become tokens.
std::vector<ConfigField> of_rows() {
  return {
      required(
          text("model", kNone, "A folder in Hugging Face form, or a name from `xrun models`.")),
      of_data_set(text(
          "template", "auto",
          "The chat template: \"auto\" is the tokenizer's own (or our tagged variant of it), else "
          "a file, a built-in name such as \"chatml\", or one of the tokenizer's own by name.")),
      required(of_kind(K::kList, "data", kNone, "The sources of rows, mixed by weight.")),
      required(
          text("data[].path", kNone,
               "A file: .jsonl (one JSON object a line), .json (a list of them), .txt (a row a "
               "block between blank lines), each also .gz or .zst; or a glob: \"pairs/*.jsonl\".")),
      above_zero("data[].weight", 1, "This source's share of rows, relative to the others."),
      of_kind(K::kRenames, "data[].fields", kNone, "Renames columns: fields = { prompt = \"q\" }."),
      of_kind(K::kTexts, "data[].keep", Json::array(),
              "Columns that stay with the row and are fields of batches and views."),
      text("data[].name", kNone, "What ledger and metrics call this source."),
      of_data_set(
          whole("max_length", kNone, 1, "Tokens of one sequence; by default the model's limit.")),
      of_data_set(text(
          "over_length", "raise",
          "What happens to a row beyond max_length: an error, dropped and counted, or cut (keeps "
          "the prompt and the head of the response).",
          {"raise", "drop", "cut"})),
      of_data_set(text(
          "train_on", kNone,
          "Which tokens are trained: \"assistant\" (the default; of pairs, the assistant turns "
          "after the shared prompt), the \"last\" turn, or \"all\".",
          {"assistant", "last", "all"})),
      of_data_set(flag("end_of_text", true,
                       "Whether a text row ends with the tokenizer's end-of-text token.")),
  };
}

// The choice and the order of rows.
std::vector<ConfigField> of_order() {
  return {
      of_kind(K::kTable, "valid", Json::object(), "What is held out for validation."),
      below(number("valid.fraction", 0, 0, 1, "The share of rows that is held out.")),
      whole("valid.every", 0, 0, "Steps between evaluations, for the recipe's loop; 0: none."),
      text("valid.by", "row",
           "Hold out the last rows, or whole prompts so that none is on both sides.",
           {"row", "prompt"}),
      of_kind(K::kList, "valid.data", kNone, "Sources of their own for validation."),
      of_data_set(of_kind(K::kTable, "mixture", Json::object(), "How several sources are mixed.")),
      text("mixture.stop", "all",
           "When the mixture ends: a source restarts, the first one ends, all "
           "have ended.",
           {"restart", "first", "all"}),
      of_kind(K::kList, "mixture.stages", Json::array(),
              "Weights that change with the step, in place of data[].weight."),
      required(whole("mixture.stages[].start", kNone, 0,
                     "The step from which the stage's weights hold; 0 for the first.")),
      required(numbers("mixture.stages[].weights", kNone, 0,
                       "A weight for each source, in the order of data; 0: not drawn.")),
      of_data_set(whole("seed", 0, 0, "Every random number of the run follows from it.")),
      of_data_set(
          of_kind(K::kFlagOrTable, "shuffle", true,
                  "Whether each epoch is shuffled; false keeps the files' order, { block = 256, "
                  "window = 512 } moves blocks of rows and then rows among neighbouring blocks.")),
      whole("shuffle.block", 256, 1, "Consecutive rows that stay close together."),
      whole("shuffle.window", 512, 1, "Blocks whose rows are mixed with each other."),
      whole("epochs", 1, 1, "How often the data is seen; one stream, each epoch reshuffled."),
      whole("steps", kNone, 1, "How many steps to take; without it epochs decides."),
  };
}

// The compute type, and the trained part of the model.
std::vector<ConfigField> of_model() {
  return {
      text("dtype", kNone,
           "What activations and the weights that they meet are stored in: f32 on a CPU, bf16 on a "
           "GPU unless it is set (a resumed run keeps its type); master weights are always f32.",
           {"f32", "fp32", "float32", "bf16", "bfloat16"}),
      of_kind(K::kTable, "export", Json::object(), "The Hugging Face folders that run:export writes."),
      text("export.dtype", kNone,
           "The type of the exported weights; without it that of the model they came from.",
           {"f32", "fp32", "float32", "bf16", "bfloat16", "f16", "fp16", "float16"}),
      text("gemm", "auto",
           "What products of bf16 weights compute in: bf16, f32 (operands are widened, "
           "results rounded once), or auto: the one that is faster on this machine, measured "
           "once and kept in run.json.",
           {"auto", "f32", "fp32", "float32", "bf16", "bfloat16"}),
      of_kind(K::kTable, "moe", Json::object(), "A model that is a mixture of experts."),
      number("moe.aux", 0, 0, kMost,
             "Weight of the experts' balance loss (train/moe/aux_loss) beside the objective's."),
      flag("recompute", false,
           "Whether each block of the model keeps its input alone and computes the rest again in "
           "the backward: less memory, one more forward a step, the same bits."),
      of_kind(K::kTable, "lora", kNone,
              "Low-rank adapters are trained in place of the weights, which stay frozen in the "
              "compute type; absent: all weights are trained."),
      whole("lora.rank", 16, 1, "Rows of A, columns of B."),
      above_zero("lora.alpha", 32, "The adapter counts alpha / rank times."),
      below(number("lora.dropout", 0, 0, 1, "Of what adapters read, in training.")),
      of_kind(K::kTexts, "lora.targets", Json(Json::Array{"all"}),
              "Last parts of the names of linear maps ({ \"q_proj\", \"v_proj\" }); { \"all\" }: "
              "every one of the blocks."),
      flag("lora.rslora", false, "Whether it counts alpha / sqrt(rank) times."),
      text(
          "lora.zero", "b",
          "The factor that starts at zero: \"b\" as in the paper and PEFT, or \"a\".",
          {"a", "b"}),
  };
}

// The optimizer.
std::vector<ConfigField> of_optimizer() {
  return {
      of_kind(K::kTable, "optim", Json::object(), "AdamW and its schedule."),
      required(above_zero("optim.lr", kNone, "The learning rate after warmup.")),
      text("optim.schedule", "linear", "How the rate falls after warmup.",
           {"constant", "linear", "cosine"}),
      number("optim.warmup", 0, 0, kMost, "Steps of warmup; below 1 a share of all steps."),
      betas("optim.betas", Json(Json::Array{0.9, 0.999}), "Decay of the two moments."),
      above_zero("optim.eps", 1e-8, "Added to the root of the second moment."),
      number("optim.weight_decay", 0, 0, kMost, "Decoupled; never on 1-D weights."),
      number("optim.clip", 1, 0, kMost, "The largest norm of the gradient; 0 is off."),
  };
}

// Steps, checkpoints and refusals.
std::vector<ConfigField> of_steps() {
  return {
      of_kind(K::kTable, "batch", Json::object(), "What one step takes."),
      whole("batch.pairs", kNone, 1, "Preference pairs a step."),
      whole("batch.sequences", kNone, 1, "Chat, text, token or feedback rows a step."),
      whole("batch.prompts", kNone, 1, "Prompts a step."),
      whole("batch.tokens", kNone, 2,
            "Tokens a step of a text stream, cut into windows of max_length tokens."),
      whole("batch.max_tokens", kMaxMicroTokens, 1,
            "Tokens of one micro-batch; a longer pair or sequence is an error before step 0."),
      of_kind(K::kTable, "save", Json::object(), "When checkpoints are taken."),
      whole("save.every", 0, 0, "Steps between checkpoints; the last step is always saved."),
      whole("save.keep", 2, 1, "How many checkpoints stay."),
      of_data_set(of_kind(K::kFlags, "laws", Json::object(),
                          "Template laws: { bos = false } switches one off.")),
      of_data_set(flag("strict", false, "The first dropped, cut or repaired row is an error.")),
      of_data_set(number(
          "max_bad", kMaxBadShare, 0, 1,
          "Share of bad rows above which a source is refused; those that a filter or over_length "
          "leaves out do not count.")),
      whole("head_mb", 1024, 1,
            "MiB a micro-batch for kept softmax rows and logits; others are computed again."),
  };
}

}  // namespace

const std::vector<ConfigField>& config_fields() {
  static const std::vector<ConfigField> fields = [] {
    std::vector<ConfigField> all;
    for (auto part : {of_rows, of_order, of_model, of_optimizer, of_steps}) {
      for (ConfigField& field : part()) all.push_back(std::move(field));
    }
    return all;
  }();
  return fields;
}

}  // namespace xrun
