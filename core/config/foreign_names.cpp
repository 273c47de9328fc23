// Names of TRL 1.16, Transformers and Axolotl, and of our options, that need a sentence: no key of
// the engine replaces them, or its name alone is not enough.

#include "core/config/foreign_names.h"

#include <algorithm>
#include <utility>

#include "core/config/config_field.h"

namespace xrun {
namespace {

constexpr std::string_view kBatchSize =
    "it is `batch.pairs`, `batch.sequences` or `batch.prompts`, the size of one step; "
    "`batch.max_tokens` bounds a micro-batch";

constexpr std::pair<std::string_view, std::string_view> kForeignSentences[] = {
    {"CPOTrainer", "xrun recipes/simpo.lua trains with SimPO"},
    {"DPOConfig", "the settings of DPO are the `xrun.config` of recipes/dpo.lua"},
    {"DPOTrainer", "xrun recipes/dpo.lua trains with DPO"},
    {"GRPOConfig", "the settings of GRPO are the `xrun.config` of recipes/grpo.lua"},
    {"GRPOTrainer", "xrun recipes/grpo.lua trains with GRPO; docs/losses.md lists its family"},
    {"KTOConfig", "the settings of KTO are the `xrun.config` of recipes/kto.lua"},
    {"KTOTrainer", "xrun recipes/kto.lua trains with KTO"},
    {"ORPOTrainer", "xrun recipes/orpo.lua trains with ORPO"},
    {"RLOOTrainer", "xrun recipes/rloo.lua trains with RLOO"},
    {"RewardTrainer", "xrun recipes/reward.lua trains a reward model"},
    {"SFTConfig", "the settings of fine-tuning are the `xrun.config` of recipes/sft.lua"},
    {"SFTTrainer", "xrun recipes/sft.lua fine-tunes on answers"},
    {"adam_beta1", "it is the first of `optim.betas`: --set optim.betas.1=0.9"},
    {"adam_beta2", "it is the second of `optim.betas`: --set optim.betas.2=0.95"},
    {"adapter", "it is `lora`: --set lora.rank=16 trains adapters"},
    {"attn_implementation", "there is one attention, on packed rows"},
    {"batch.size", kBatchSize},
    {"batch_size", kBatchSize},
    {"beta", "it is a key of the recipe, as in recipes/dpo.lua and recipes/grpo.lua"},
    {"bf16", "it is `dtype`: --set dtype=bf16"},
    {"bs", kBatchSize},
    {"chat_template_kwargs",
     "a row's column of that name, or an option of xrun.chat and the other openers: "
     "{ template_kwargs = { enable_thinking = false } }"},
    {"compile", "nothing is compiled; leave it out"},
    {"cpo_alpha", "a recipe adds its losses: recipes/simpo.lua plus a term (docs/objectives.md)"},
    {"dataset", "the files are `data`: --set data.1.path=FILE"},
    {"dataset_name", "the files are `data`, on this machine: --set data.1.path=FILE"},
    {"dataset_num_proc", "rows are read on all threads; the option --threads N sets them"},
    {"dataset_text_field", "data[].fields renames columns: fields = { text = \"column\" }"},
    {"deepspeed", "`dist.level` shards the state over ranks (docs/distributed.md)"},
    {"delta", "recipes/ppo.lua has it as `dual`"},
    {"desirable_weight", "recipes/kto.lua has it as `good`"},
    {"device", "it is an option of the command: --device cuda"},
    {"device_map",
     "the option --device cuda takes the GPU; several GPUs share the work by ranks "
     "(docs/distributed.md)"},
    {"early_stopping_patience", "run:stop(reason) in the loop; docs/recipes.md has the lines"},
    {"epsilon",
     "recipes/grpo.lua and dapo.lua have it as `clip`, recipes/gspo.lua with the range of its ratios"},
    {"epsilon_high",
     "recipes/dapo.lua and gspo.lua have it as `clip_high`, recipes/cispo.lua as `cap`"},
    {"eos_token",
     "the tokenizer's files name it; `sampling.stop` names further texts that end an answer"},
    {"eval_loss", "it is `valid/loss` of metrics.jsonl, where the loop calls run:evaluate"},
    {"eval_strategy", "`valid.every` is the number of steps between evaluations"},
    {"evaluation_strategy", "`valid.every` is the number of steps between evaluations"},
    {"flash_attention", "there is one attention, on packed rows"},
    {"formatting_func",
     "the option map = function(row) ... return row end of xrun.chat and the "
     "other openers (docs/data.md)"},
    {"fp16", "it is `dtype`, which is fp32 or bf16; nothing trains in fp16"},
    {"fsdp", "`dist.level` shards the state over ranks (docs/distributed.md)"},
    {"generation_batch_size",
     "a step answers `batch.prompts` prompts, each `sampling.samples` times"},
    {"gradient_accumulation_steps",
     "nothing accumulates: `batch.pairs`, `batch.sequences` or `batch.prompts` is the size of a whole "
     "step, per_device_train_batch_size x gradient_accumulation_steps x devices, which is cut into "
     "micro-batches of `batch.max_tokens` tokens"},
    {"group_by_length", "rows are always packed, so lengths need no groups"},
    {"hub_model_id", "upload the run's folder hf/ yourself: hf upload"},
    {"importance_sampling_level", "\"sequence\" is recipes/gspo.lua"},
    {"label",
     "a column of the rows that xrun.feedback reads, true or false, as in recipes/kto.lua"},
    {"label_smoothing",
     "recipes/pair_losses.lua has it as `eps`, with loss = \"cdpo\" or \"robust\""},
    {"load_best_model_at_end", "run:export(policy, \"best\") in the loop keeps the best weights"},
    {"load_in_4bit", "weights are fp32 or bf16 (`dtype`); there is no quantised training"},
    {"load_in_8bit", "weights are fp32 or bf16 (`dtype`); there is no quantised training"},
    {"log_completions", "every answer is in rollouts/ of the run; xrun inspect RUN shows them"},
    {"logging_steps", "every step is logged"},
    {"lora_target_linear", "it is the default, `lora.targets` = { \"all\" }"},
    {"lora_target_modules",
     "it is `lora.targets`, a list: --set 'lora.targets={ \"q_proj\", \"v_proj\" }'"},
    {"loss",
     "the loss is in the recipe: recipes/pair_losses.lua takes --set loss=NAME; `kd.loss` is "
     "distillation's"},
    {"loss_type",
     "the loss is in the recipe: recipes/pair_losses.lua takes --set loss=NAME; of GRPO's family each "
     "has its own recipe: dr_grpo, dapo, cispo"},
    {"loss_weights", "a recipe weighs its losses itself (docs/objectives.md)"},
    {"mask_truncated_completions",
     "rollouts:filter(function(s) return s.finish ~= \"length\" end) leaves them out"},
    {"max_completion_length",
     "of sampled answers it is `sampling.max_tokens` of the recipe; given answers are limited "
     "together with their prompt by `max_length`, and `over_length` decides about longer rows"},
    {"max_prompt_length", "prompts are never cut; `max_length` limits prompt and answer together"},
    {"micro_batch_size", "`batch.max_tokens` bounds the tokens of a micro-batch"},
    {"modules_to_save",
     "adapters train alone; without `lora` the key `train` names the weights that are trained"},
    {"neftune_noise_alpha", "there is no noise on embeddings; leave it out"},
    {"num_generations_eval", "run:sample answers each held-out prompt once"},
    {"num_iterations",
     "rollouts:minibatches { epochs = 2 } gives several updates of one batch; "
     "recipes/ppo.lua has `updates.epochs`"},
    {"optimizer", "AdamW is the optimizer; `optim` has its options"},
    {"output_dir", "the run's folder is the option --run DIR"},
    {"packing", "rows are always packed; segments never see each other"},
    {"pad_token", "rows are always packed, without padding"},
    {"padding_side", "rows are always packed, without padding"},
    {"padding_free", "rows are always packed, without padding"},
    {"peft_config", "it is `lora`: --set lora.rank=16 trains adapters"},
    {"per_device_train_batch_size",
     "it is `batch.pairs`, `batch.sequences` or `batch.prompts`, the size of a whole step: "
     "per_device_train_batch_size x gradient_accumulation_steps x devices; `batch.max_tokens` "
     "bounds a micro-batch"},
    {"precompute_ref_log_probs", "policy:reference() keeps its log-probs in the cache"},
    {"push_to_hub", "upload the run's folder hf/ yourself: hf upload"},
    {"ref_model", "the recipe makes it: policy:reference()"},
    {"remove_unused_columns",
     "columns that nothing reads are left out and noted; `keep` of a data source names those that "
     "stay with their rows"},
    {"repetition_penalty", "sampling has no penalties; a reward may have one"},
    {"report_to", "metrics.jsonl and TensorBoard events (tb/) are always written"},
    {"resume_from_checkpoint", "resume with the option --resume"},
    {"reward_funcs",
     "a function of the recipe, given to rollouts:score; the parts of its second result are logged "
     "separately"},
    {"reward_weights", "the reward weighs its parts: return a + 0.5 * b, { a = a, b = b }"},
    {"rewards/accuracies", "it is `train/accuracy` of metrics.jsonl"},
    {"rewards/chosen", "it is `train/reward_chosen` of metrics.jsonl"},
    {"rewards/margins", "it is `train/margin` of metrics.jsonl"},
    {"rewards/rejected", "it is `train/reward_rejected` of metrics.jsonl"},
    {"rpo_alpha", "recipes/pair_losses.lua has it as `alpha`, with loss = \"rpo\""},
    {"run_name", "the run's folder is the option --run NAME"},
    {"sample_packing", "rows are always packed; segments never see each other"},
    {"save_strategy", "`save.every` is the number of steps between checkpoints"},
    {"scale_rewards",
     "xrun.group_advantage divides by the group's deviation; \"none\" is { scale = false }"},
    {"simpo_gamma", "recipes/simpo.lua has it as `gamma`"},
    {"steps_per_generation",
     "rollouts:minibatches { groups = 4 } gives several updates of one batch; "
     "recipes/ppo.lua has `updates.groups`"},
    {"target_modules",
     "it is `lora.targets`, a list: --set 'lora.targets={ \"q_proj\", \"v_proj\" }'"},
    {"template_kwargs",
     "it is an option of xrun.chat and the other openers: "
     "{ template_kwargs = { enable_thinking = false } }; a row's column chat_template_kwargs comes "
     "first"},
    {"torch_compile", "nothing is compiled; leave it out"},
    {"undesirable_weight", "recipes/kto.lua has it as `bad`"},
    {"use_peft", "it is `lora`: --set lora.rank=16 trains adapters"},
    {"use_vllm", "the sampler is part of xrun and reads the policy's own weights"},
    {"vllm_importance_sampling_cap",
     "r:truncated_ratio(cap) in the objective; recipes/ppo.lua has it as `tis`"},
    {"vllm_importance_sampling_correction",
     "r:truncated_ratio(cap) in the objective; recipes/ppo.lua has it as `tis`"},
    {"wandb", "metrics.jsonl and TensorBoard events (tb/) are always written"},
    {"wandb_project", "metrics.jsonl and TensorBoard events (tb/) are always written"},
};

}  // namespace

std::string foreign_name_hint(std::string_view name, std::string* path) {
  std::string key;
  for (const ConfigField& field : config_fields()) {
    const bool is_its =
        std::find(field.foreign.begin(), field.foreign.end(), name) != field.foreign.end();
    if (is_its) key = field.path;
  }
  if (path != nullptr) *path = key;
  for (const auto& [known, advice] : kForeignSentences) {
    if (name == known) return std::string(advice);
  }
  return key.empty() ? "" : "here it is `" + key + "`";
}

}  // namespace xrun
