// Names of other libraries get a hint that leads to keys which exist here.

#include "core/config/foreign_names.h"

#include <gtest/gtest.h>

#include <regex>

#include "core/base/file.h"
#include "tests/tree.h"

namespace xrun::foreign_names_test {
namespace {

bool has(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

TEST(ForeignNames, HaveAHintAndOthersHaveNone) {
  EXPECT_EQ(foreign_name_hint("logging_steps"), "every step is logged");
  EXPECT_EQ(foreign_name_hint("bett"), "");
  EXPECT_TRUE(has(foreign_name_hint("batch_size"), "`batch.pairs`"));
  EXPECT_EQ(foreign_name_hint("batch.size"), foreign_name_hint("batch_size"));
  for (const char* name : {"per_device_train_batch_size", "gradient_accumulation_steps"}) {
    EXPECT_TRUE(has(foreign_name_hint(name),
                    "per_device_train_batch_size x gradient_accumulation_steps x devices"));
  }
  EXPECT_TRUE(has(foreign_name_hint("load_in_4bit"), "no quantised training"));
  EXPECT_EQ(foreign_name_hint("device"), "it is an option of the command: --device cuda");
  for (const char* name : {"remove_unused_columns",
                           "early_stopping_patience",
                           "formatting_func",
                           "modules_to_save",
                           "lora_target_linear",
                           "GRPOConfig",
                           "SFTConfig",
                           "DPOConfig",
                           "KTOConfig",
                           "pad_token",
                           "padding_side",
                           "device_map",
                           "neftune_noise_alpha",
                           "wandb",
                           "eos_token",
                           "label",
                           "rewards/margins",
                           "eval_loss",
                           "bs",
                           "loss"}) {
    EXPECT_NE(foreign_name_hint(name), "") << name;
  }
  std::string path = "left";
  EXPECT_TRUE(has(foreign_name_hint("max_completion_length", &path), "`sampling.max_tokens`"));
  EXPECT_EQ(path, "");
  EXPECT_EQ(foreign_name_hint("num_generations", &path), "here it is `sampling.samples`");
  EXPECT_EQ(path, "sampling.samples");
  EXPECT_EQ(foreign_name_hint("learning_rate", &path), "here it is `optim.lr`");
  EXPECT_EQ(path, "optim.lr");
}

// Arguments of TRL's GRPOConfig, with the key of a recipe that their hint must name.
struct GrpoName {
  const char *name, *recipe, *key;
};

TEST(ForeignNames, OfGrpoPointAtKeysThatTheRecipesHave) {
  for (const GrpoName& one : {GrpoName{"num_generations", "grpo", "sampling.samples"},
                              {"max_completion_length", "grpo", "sampling.max_tokens"},
                              {"temperature", "grpo", "sampling.temperature"},
                              {"generation_batch_size", "grpo", "batch.prompts"},
                              {"epsilon", "grpo", "clip"},
                              {"epsilon", "gspo", "clip"},
                              {"epsilon_high", "dapo", "clip_high"},
                              {"epsilon_high", "cispo", "cap"},
                              {"delta", "ppo", "dual"},
                              {"num_iterations", "ppo", "updates.epochs"},
                              {"steps_per_generation", "ppo", "updates.groups"},
                              {"vllm_importance_sampling_cap", "ppo", "tis"}}) {
    SCOPED_TRACE(one.name);
    const std::string key = one.key;
    EXPECT_TRUE(has(foreign_name_hint(one.name), "`" + key + "`"));
    const std::string text = read_file(source_path(std::string("recipes/") + one.recipe + ".lua"));
    const size_t dot = key.find('.');
    const std::string line =
        dot == std::string::npos
            ? "[ ,]" + key + " *= "
            : "\n  " + key.substr(0, dot) + " *= \\{.*[ ]" + key.substr(dot + 1) + " = ";
    EXPECT_TRUE(std::regex_search(text, std::regex(line))) << one.recipe << ".lua lacks " << key;
  }
  EXPECT_TRUE(has(foreign_name_hint("beta"), "recipes/grpo.lua"));
  EXPECT_TRUE(has(foreign_name_hint("loss_type"), "recipes/pair_losses.lua"));
  EXPECT_TRUE(has(foreign_name_hint("scale_rewards"), "xrun.group_advantage"));
  EXPECT_TRUE(has(foreign_name_hint("reward_funcs"), "rollouts:score"));
  for (const char* name :
       {"top_k", "top_p", "min_p", "reward_weights", "GRPOTrainer", "RLOOTrainer",
        "mask_truncated_completions", "importance_sampling_level", "use_vllm"}) {
    EXPECT_NE(foreign_name_hint(name), "") << name;
  }
}

}  // namespace
}  // namespace xrun::foreign_names_test
