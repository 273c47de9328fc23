// One line declares a key: its name, type, default, range, doc, and its names in other libraries.
// The checks, docs/lua-api.md, `xrun explain` and the editors' stubs read this table.

#include <fmt/core.h>

#include <limits>

#include "core/config/field_builders.h"

namespace xrun {
namespace {

using K = FieldKind;
using namespace field_builders;

const double kMost = std::numeric_limits<double>::infinity();
const Json kNone;

// Rows and their tokens.
std::vector<ConfigField> of_rows() {
  return {
      text("extends", kNone,
           "A recipe beside this one, or a bundle, whose config gives what this one leaves out; "
           "tables merge key by key, lists are replaced."),
      foreign({"model_name_or_path", "base_model"},
              required(of_kind(
                  K::kTextOrTable, "model", kNone,
                  "A Hugging Face model folder, a name from `xrun models`, or the sizes of a new "
                  "model with random weights: { layers = 4, hidden = 256, tokenizer = \"DIR\" }. "
                  "Its weights depend on them, the tokenizer and `seed` alone."))),
      foreign({"chat_template", "chat_template_path"},
              of_data_set(text(
                  "template", "auto",
                  "The chat template: \"auto\" is the tokenizer's own (or our marked variant of "
                  "it), else a file, a built-in name such as \"chatml\", or the name of one of the "
                  "tokenizer's templates."))),
      foreign({"dataset_name", "datasets"},
              required(of_kind(K::kList, "data", kNone, "The sources of rows, mixed by weight."))),
      required(
          text("data[].path", kNone,
               "A file: .jsonl (one JSON object per line), .json (a list of them), .txt (one row "
               "per block between blank lines), each also .gz or .zst; or a glob: "
               "\"pairs/*.jsonl\".")),
      above_zero("data[].weight", 1, "This source's share of rows, relative to the others."),
      of_kind(K::kRenames, "data[].fields", kNone, "Renames columns: fields = { prompt = \"q\" }."),
      of_kind(K::kTexts, "data[].keep", Json::array(),
              "Extra columns, which stay with the row as fields of batches and views."),
      of_kind(
          K::kTable, "data[].quota", kNone,
          "The total that this source contributes, in rows or in tokens, over as many epochs as "
          "that takes; after that the other sources share its weight."),
      whole("data[].quota.rows", kNone, 1, "Rows: pairs, prompts, or windows of batch.tokens."),
      whole("data[].quota.tokens", kNone, 1,
            "Tokens, in whole rows: the row that reaches this number is the last."),
      text("data[].name", kNone, "The name of this source in the ledger and in metrics."),
      foreign({"max_seq_length", "max_seq_len", "sequence_len"},
              of_data_set(whole("max_length", kNone, 1,
                                "Maximum tokens per sequence; by default the model's limit."))),
      foreign(
          {"truncation_mode"},
          of_data_set(text(
              "over_length", "raise",
              "A row longer than max_length is an error (raise), is dropped and counted (drop), "
              "or is cut, keeping the prompt and the beginning of the response (cut; a prompt is "
              "never cut, so a row whose prompt alone is too long is dropped).",
              {"raise", "drop", "cut"}))),
      foreign({"assistant_only_loss", "completion_only_loss", "train_on_inputs", "train_on_input"},
              of_data_set(text(
                  "train_on", kNone,
                  "The trained tokens: \"assistant\" (the default; in pairs, the assistant turns "
                  "after the shared prompt), the \"last\" turn, or \"all\".",
                  {"assistant", "last", "all"}))),
      of_data_set(
          flag("end_of_text", true, "Adds the tokenizer's end-of-text token to each text row.")),
  };
}

// A model with random weights.
std::vector<ConfigField> of_random_model() {
  return {
      text("model.preset", "tiny",
           "The sizes that are left out: tiny is 4 layers, 256 wide, mid 8 layers, 512 wide, both "
           "Llama; moe-N is Qwen3-MoE with N experts.",
           {"tiny", "mid", "moe-1", "moe-8", "moe-64", "gpt2-tiny"}),
      text("model.tokenizer", kNone,
           "The folder of its tokenizer, a name from `xrun models`, or \"bytes\": one token per "
           "byte, with ChatML."),
      whole("model.layers", kNone, 1, "Number of layers."),
      whole("model.hidden", kNone, 1, "Numbers in a token's hidden state."),
      whole("model.heads", kNone, 1, "Query heads."),
      whole("model.kv_heads", kNone, 1,
            "Key and value heads; by default those of the preset, or `heads` where that is given."),
      whole("model.ffn", kNone, 1,
            "Width of the feed-forward; by default 8/3 of another width (GPT-2: 4 times)."),
      whole("model.vocab", kNone, 1, "Rows of the embedding; by default the tokenizer's ids."),
      whole("model.max_length", kNone, 1, "Positions of the longest sequence."),
      flag("model.tied", true, "The head is the embedding."),
  };
}

// The choice and the order of rows.
std::vector<ConfigField> of_order() {
  return {
      of_kind(K::kTable, "valid", Json::object(), "The validation set."),
      foreign({"val_set_size"},
              below_most(number("valid.fraction", 0, 0, 1, "The share of rows that is held out."))),
      foreign({"eval_steps", "eval_strategy"},
              whole("valid.every", 0, 0,
                    "Steps between evaluations, for the recipe's loop; 0 is off.")),
      text("valid.by", "row",
           "Holds out the last rows, or whole prompts, so that no prompt is in both sets.",
           {"row", "prompt"}),
      of_kind(K::kList, "valid.data", kNone, "Sources of the validation set, instead of a share."),
      of_data_set(of_kind(K::kTable, "mixture", Json::object(), "The mixture of several sources.")),
      text("mixture.stop", "all",
           "An exhausted source restarts without end (restart), ends the mixture (first), or "
           "restarts until every source has ended (all).",
           {"restart", "first", "all"}),
      text("mixture.order", "blocks",
           "The order of the sources: \"blocks\" shuffles them inside blocks of 2,048 rows with "
           "each source's exact share; \"round_robin\" is the smooth weighted round robin, A A B A "
           "C A A for weights 5, 1, 1.",
           {"blocks", "round_robin"}),
      of_kind(K::kList, "mixture.stages", Json::array(),
              "Weights that change with the step, in place of data[].weight."),
      required(whole("mixture.stages[].start", kNone, 0,
                     "The first step of the stage; 0 for the first stage.")),
      required(numbers("mixture.stages[].weights", kNone, 0,
                       "One weight per source, in the order of data; 0: not drawn.")),
      foreign({"data_seed"},
              of_data_set(whole("seed", 0, 0, "Seeds every random number of the run."))),
      foreign(
          {"shuffle_dataset"},
          of_data_set(of_kind(
              K::kFlagOrTable, "shuffle", true,
              "Shuffles each epoch; false keeps the order of the files; { block = 256, window = "
              "512 } shuffles blocks of rows, then rows among neighbouring blocks."))),
      whole("shuffle.block", 256, 1, "Consecutive rows that stay close together."),
      whole("shuffle.window", 512, 1, "Blocks whose rows are mixed with each other."),
      foreign({"num_train_epochs", "num_epochs"},
              whole("epochs", 1, 1,
                    "Passes over the data, in one stream; each epoch is shuffled again.")),
      foreign({"max_steps", "max_steps_per_epoch"},
              whole("steps", kNone, 1, "Steps of the run; by default set by epochs.")),
  };
}

// The compute type and the trained weights.
std::vector<ConfigField> of_model() {
  return {
      foreign(
          {"bf16", "fp16", "torch_dtype", "precision"},
          text("dtype", kNone,
               "The type of activations and of the weights in products, by default fp32 on a CPU "
               "and bf16 on a GPU (a resumed run keeps its type); master weights are always fp32.",
               {"fp32", "f32", "float32", "bf16", "bfloat16"})),
      of_kind(K::kTable, "export", Json::object(),
              "The Hugging Face folders that run:export writes."),
      text("export.dtype", kNone,
           "The type of the exported weights; by default the type of the model they came from.",
           {"fp32", "f32", "float32", "bf16", "bfloat16", "fp16", "f16", "float16"}),
      text("gemm", "auto",
           "The type in which products of bf16 weights compute: bf16, fp32 (operands are widened, "
           "results rounded once), or auto: the faster one on this machine, measured once and "
           "stored in run.json.",
           {"auto", "fp32", "f32", "float32", "bf16", "bfloat16"}),
      of_kind(K::kTable, "moe", Json::object(), "Settings of a mixture of experts."),
      foreign({"router_aux_loss_coef"},
              number("moe.aux", 0, 0, kMost,
                     "Weight of the experts' balance loss (train/moe/aux_loss), added to the "
                     "objective's.")),
      foreign(
          {"gradient_checkpointing", "enable_activation_checkpointing"},
          flag("recompute", false,
               "Each block of the model keeps only its input and computes the rest again in the "
               "backward: less memory, one more forward per step, the same bits.")),
      foreign({"unfrozen_parameters"},
              of_kind(K::kTexts, "train", kNone,
                      "The weights that are trained, by patterns of their names: { "
                      "\"*.mlp.*\", \"*norm*\" }, * for any characters. The others are "
                      "frozen, in the compute type, without master, gradient and moments; absent: "
                      "all are trained.")),
      foreign({"use_peft", "peft_config", "adapter"},
              of_kind(K::kTable, "lora", kNone,
                      "Trains low-rank adapters in place of the weights, which stay frozen in the "
                      "compute type; absent: all weights are trained.")),
      foreign({"lora_r", "r", "lora_rank"}, whole("lora.rank", 16, 1, "Rows of A, columns of B.")),
      foreign({"lora_alpha"},
              above_zero("lora.alpha", 32, "The adapter's output is scaled by alpha / rank.")),
      foreign({"lora_dropout"},
              below_most(number("lora.dropout", 0, 0, 1,
                                "Dropout of the adapters' inputs, in training."))),
      foreign({"lora_target_modules", "target_modules", "lora_attn_modules"},
              of_kind(K::kTexts, "lora.targets", Json(Json::Array{"all"}),
                      "Linear maps, by the last component of their names ({ \"q_proj\", "
                      "\"v_proj\" }); { \"all\" }: all linear maps of the blocks.")),
      foreign({"use_rslora", "peft_use_rslora"},
              flag("lora.rslora", false, "Scales by alpha / sqrt(rank) instead.")),
      text("lora.zero", "b",
           "The factor that starts at zero: \"b\" as in the paper and PEFT, or \"a\".", {"a", "b"}),
  };
}

// The optimizer.
std::vector<ConfigField> of_optimizer() {
  return {
      of_kind(K::kTable, "optim", Json::object(), "AdamW and its schedule."),
      foreign({"learning_rate"},
              required(above_zero("optim.lr", kNone, "The learning rate after warmup."))),
      foreign({"lr_scheduler_type", "lr_scheduler", "scheduler"},
              text("optim.schedule", "linear", "The decay of the learning rate after warmup.",
                   {"constant", "linear", "cosine"})),
      foreign({"warmup_ratio", "warmup_steps", "num_warmup_steps"},
              number("optim.warmup", 0, 0, kMost,
                     "Steps of warmup; a number below 1 is a share of all steps.")),
      foreign({"adam_beta1", "adam_beta2"}, betas("optim.betas", Json(Json::Array{0.9, 0.999}),
                                                  "Decay rates of the two moments.")),
      foreign({"adam_epsilon"},
              above_zero("optim.eps", 1e-8, "Added to the root of the second moment.")),
      foreign({"weight_decay", "wd"},
              number("optim.weight_decay", 0, 0, kMost,
                     "Decoupled weight decay, not applied to 1-D weights.")),
      foreign({"max_grad_norm", "clip_grad_norm"},
              number("optim.clip", 1, 0, kMost, "The largest norm of the gradient; 0 is off.")),
  };
}

// Steps, processes, checkpoints and bad rows.
std::vector<ConfigField> of_steps() {
  return {
      foreign(
          {"per_device_train_batch_size", "gradient_accumulation_steps"},
          of_kind(K::kTable, "batch", Json::object(),
                  "The total size of one step: pairs, sequences, prompts, groups or tokens. The "
                  "step is cut into micro-batches of max_tokens tokens, so there is no setting "
                  "for accumulation steps.")),
      whole("batch.pairs", kNone, 1, "Preference pairs per step."),
      whole("batch.sequences", kNone, 1, "Chat, text, token or feedback rows per step."),
      whole("batch.prompts", kNone, 1, "Prompts per step."),
      whole("batch.groups", kNone, 1, "Groups of rollouts per step, of xrun.rollouts."),
      whole("batch.tokens", kNone, 2,
            "Tokens per step of a text stream, cut into windows of max_length tokens."),
      of_kind(K::kList, "batch.schedule", Json::array(),
              "Other sizes for later steps of the loop, in the unit of the batch: { { step = 100, "
              "size = 16 } } has batch.pairs = 8 before step 100 and 16 pairs from there on."),
      required(whole("batch.schedule[].step", kNone, 1, "The first step of the size.")),
      required(whole("batch.schedule[].size", kNone, 1, "Pairs, sequences, prompts or tokens.")),
      foreign({"micro_batch_size"},
              whole("batch.max_tokens", kMaxMicroTokens, 1,
                    "The most tokens that a micro-batch computes, counted after folding; a longer "
                    "pair or sequence is an error before step 0.")),
      flag_or_text("batch.fold", "auto",
                   "Shared prefixes of a micro-batch are computed once, with the losses and "
                   "gradients of the separate sequences: \"auto\" where that saves time, true "
                   "always, false never.",
                   {"auto"}),
      whole("batch.fold_min", kFoldMin, 1, "The shortest shared run of tokens that is folded."),
      text("batch.fold_weight", "per_sample",
           "The weight of a trained token that several sequences share: each sequence's own, the "
           "share of the group's sequences that have it, or that of the first sequence only.",
           {"per_sample", "branch_mean", "own_once"}),
      whole("batch.fold_check", 0, 0,
            "Steps between checks of a folded micro-batch against its separate sequences while the "
            "run trains; 0 checks before the first update only."),
      of_kind(K::kTable, "dist", Json::object(),
              "Training on several processes (docs/distributed.md); a single process ignores it."),
      up_to(3, whole("dist.level", 1, 0,
                     "The state that is divided among the processes: 0 none, 1 the optimizer's, "
                     "2 gradients too, 3 weights too. Results are the same.")),
      flag("dist.exact", false,
           "Sums gradients in the batch's order even where a faster order exists, so that any "
           "number of processes gives the bits of one; on the CPU the order is always the "
           "batch's."),
      of_kind(K::kTable, "save", Json::object(), "Checkpoints."),
      foreign({"save_steps", "save_strategy"},
              whole("save.every", 0, 0,
                    "Steps between checkpoints; 0 is off. The last step is always saved.")),
      number("save.minutes", 10, 0, kMost,
             "Minutes between checkpoints, in addition to save.every; 0 is off."),
      foreign({"save_total_limit"}, whole("save.keep", 2, 1, "Number of checkpoints to keep.")),
      of_kind(K::kTable, "stop", Json::object(), "The end of a run before its last step."),
      number("stop.after", 0, 0, kMost,
             "Minutes since this process started, on any rank, after which the run ends at the end "
             "of a step: it saves and exits with 0; --resume continues it. 0 is off."),
      of_data_set(of_kind(K::kFlags, "laws", Json::object(),
                          "Template laws: { bos = false } switches one off.")),
      of_data_set(flag("strict", false, "Makes the first dropped, cut or repaired row an error.")),
      of_data_set(number(
          "max_bad", kMaxBadShare, 0, 1,
          "Share of bad rows, or of rows that are not UTF-8, above which a source is refused; rows "
          "that a filter or over_length leaves out do not count.")),
      whole("head_mb", 1024, 1,
            "MiB per micro-batch for softmax rows and logits that are kept for the backward; the "
            "rest is recomputed."),
  };
}

// policy:sample, run:sample and xrun.rollouts.
std::vector<ConfigField> of_sampling() {
  return {
      of_kind(K::kTable, "sampling", kNone,
              "Options of policy:sample, which takes the table as its last argument, and of "
              "xrun.rollouts and run:sample."),
      foreign({"num_generations"},
              whole("sampling.samples", kSamples, 1, "Answers to each prompt.")),
      whole("sampling.max_tokens", kAnswerTokens, 0,
            "The most tokens of an answer, or of one turn of a conversation."),
      foreign({"temperature"},
              number("sampling.temperature", 1, 0, 1000,
                     "Divides the logits; 0, the default of run:sample, takes the likeliest "
                     "token.")),
      foreign({"top_k"},
              whole("sampling.top_k", 0, 0, "Draws from the likeliest k tokens alone; 0 is off.")),
      foreign({"top_p"}, up_to(1, above_zero("sampling.top_p", 1,
                                             "Draws from the likeliest tokens whose shares sum to "
                                             "p; 1 is off."))),
      foreign({"min_p"}, number("sampling.min_p", 0, 0, 1,
                                "Leaves out tokens below this share of the likeliest; 0 is off.")),
      of_kind(K::kTextOrTexts, "sampling.stop", kNone, "Texts that end an answer."),
      whole("sampling.seed", kNone, 0, "Seeds the draws; by default the run's seed."),
      text("sampling.draws", "step",
           "Draws depend on the row and the sample, and under \"step\" on the step too.",
           {"step", "row"}),
      flag("sampling.drafts", true,
           "Takes the answer of an earlier epoch as a draft, which changes no token."),
      flag("sampling.replay_routes", false,
           "A mixture of experts takes the sampler's experts for the answers in training."),
      foreign({"max_tool_calling_iterations"},
              whole("sampling.max_turns", kNone, 1,
                    fmt::format("The most turns of a conversation with an environment; {} if it "
                                "is absent.",
                                kMaxTurns))),
      text("sampling.on_error", kNone,
           "A failure of an environment ends the run (error, the default), leaves the conversation "
           "out (mask) or gives it the reward 0 (zero).",
           {"error", "mask", "zero"}),
      above_zero("sampling.deadline_s", kNone,
                 fmt::format("The most seconds of one call of an environment; {} if it is absent.",
                             kCallDeadlineS)),
  };
}

// xrun.kd.
std::vector<ConfigField> of_distillation() {
  return {
      of_kind(K::kTable, "kd", kNone,
              "Settings of xrun.kd, which takes the table as its last argument."),
      text(
          "kd.loss", kNone,
          "The divergence of a chunk: \"p-kl\", \"gold\", \"h-kl\", \"uld\" and \"hybrid\" for two "
          "vocabularies, \"topk\" and \"full\" for one. By default \"full\" where both have one "
          "vocabulary, \"topk\" where the teacher stores its top columns, else \"p-kl\".",
          {"p-kl", "gold", "h-kl", "uld", "hybrid", "topk", "full"}),
      above_zero("kd.temperature", 1, "Divides the logits of both sides."),
      whole("kd.topk", kNone, 1,
            "Columns of \"p-kl\" and \"topk\", and of the sorted rest in \"gold\" and \"h-kl\". By "
            "default 8,192, or all columns of a teacher's cache; more than it has is an error."),
      flag("kd.reverse", false, "KL(student || teacher) instead of KL(teacher || student)."),
      text("kd.mean", kNone,
           "The mean of a chunk's distributions over its tokens; by default that of the published "
           "form of the loss.",
           {"arithmetic", "geometric", "chain"}),
      number("kd.beta", 0.5, 0, 1,
             "The mixture of hybrid's JSD: 0 is KL(teacher || student), 1 is KL(student || "
             "teacher)."),
      text("kd.projection", "auto",
           "The student's vocabulary in the teacher's columns: a file of `xrun projection`, or "
           "\"auto\": made from the two tokenizers once and cached."),
  };
}

}  // namespace

const std::vector<ConfigField>& config_fields() {
  static const std::vector<ConfigField> fields = [] {
    std::vector<ConfigField> all;
    for (auto group : {of_rows, of_random_model, of_order, of_model, of_optimizer, of_sampling,
                       of_distillation, of_steps}) {
      for (ConfigField& field : group()) all.push_back(std::move(field));
    }
    return all;
  }();
  return fields;
}

}  // namespace xrun
