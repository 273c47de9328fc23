#pragma once
// Samples answers of a model to the prompts of a data set, writes them to the run, and shows them
// beside the run's earliest ones.

#include <filesystem>
#include <lua.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/rollout/text_sampler.h"
#include "lua/bind/data/data_handle.h"

namespace xrun {

class Model;
class Options;
class Policy;
class Ranks;
class Tokenizer;

// One answer.
struct Sample {
  int64_t row = -1;    // of the data set
  std::string prompt;  // text of the prompt tokens, special tokens left out
  std::string text;    // the answer, special tokens left out
  int64_t length = 0;  // its tokens, the stop token included
  std::string finish;  // "stop", "stop_string" or "length"; as Rollout::finish
  Json extra;          // the row's extra columns, an object
  std::vector<int32_t> prompt_ids, ids;
  Json turns = Json::array();     // turn_json of each turn in an environment
  double environment_reward = 0;  // the sum over the turns
  std::string question = {};      // headline on the console; "": the end of the prompt
};

// Reads the options that policy:sample and run:sample share, the fields of the config's `sampling`.
// Sampling then polls for interruptions (check_stop).
//   temperature, seed  where the options have none
TextOptions read_sampling_options(lua_State* L, const Options& given, double temperature,
                                  uint64_t seed);

// Answers every prompt of the set once, in order. The row keys the random numbers, so an answer
// depends on its row and the seed only. Stop ids are the model's. Ranks (null: one process) share
// the prompts, and each gets all answers.
std::vector<Sample> answer_prompts(Model& model, const Tokenizer& tokenizer, const DataHandle& data,
                                   TextOptions options, Ranks* ranks);

// The arguments of converse_with_environment: a policy converses about the first `count` prompts of
// a set.
struct SampledConversations {
  Policy& policy;
  Model* model;  // computes the turns; null: random turns, of a dry run
  const DataHandle& data;
  int64_t count;
  const TextOptions& text;
};

// Does the same in conversations with the environment in the options at argument i. Conversations
// that it aborts are left out under on_error = "mask".
std::vector<Sample> converse_with_environment(lua_State* L, int i, const SampledConversations& of);

// Returns the first `count` prompts of the set with random answers, for a dry run.
std::vector<Sample> random_samples(const Tokenizer& tokenizer, const DataHandle& data,
                                   int64_t count, int64_t max_tokens, uint64_t seed);

// Fills the question of the first `count` samples: the row's column "prompt" if it is text and an
// extra column, else the last user turn, which is read again from the row's file.
void find_questions(std::vector<Sample>& samples, size_t count, const DataHandle& data,
                    const Tokenizer& tokenizer);

// Writes the samples to `dir`/step_0000034.jsonl. Returns the text that shows the first `count` of
// them, each beside the answer in the earliest file of `dir` if that is another step's.
std::string save_and_show(const std::filesystem::path& dir, int64_t step,
                          const std::vector<Sample>& samples, size_t count);

}  // namespace xrun
