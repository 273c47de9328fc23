// The key of a draw is (seed, step, row, sample, position), or without the step: nothing else in
// the batch changes a token. Only draw() and converse() call the sampler.

#include "core/rollout/rollout_sampler.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/strings.h"
#include "core/model/model.h"
#include "core/model/weights/hf_config.h"
#include "core/rollout/answer_history.h"
#include "core/rollout/answer_text.h"
#include "core/rollout/planned_answers.h"
#include "core/rollout/shared_rollouts.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/models/logprob_stand_in.h"
#include "core/train/models/policy.h"

namespace xrun {

namespace {

struct AskedPrompt {
  int64_t row, segment;  // of the data set, and of the batch
  std::shared_ptr<const std::vector<int32_t>> ids;
  int64_t index = 0;  // among the prompts of the batch
  uint64_t name = 0;  // in draw keys
};

// Names the prompts in draw keys: the row, and the number of times that it occurred before. Rows
// are below 2^34, a name is below 2^44.
void name_draws(std::vector<AskedPrompt>& prompts) {
  std::map<int64_t, uint64_t> seen;
  for (AskedPrompt& prompt : prompts) {
    const auto row = static_cast<uint64_t>(std::max<int64_t>(prompt.row, 0));
    prompt.name = row + (seen[prompt.row]++ << 34);
  }
}

std::vector<AskedPrompt> prompts_of(const Batch& batch) {
  std::vector<AskedPrompt> packed;
  std::vector<int8_t> sides;
  for (const auto& micro : batch.micros()) {
    const PackedBatch& pack = micro->pack();
    for (int64_t s = 0; s < pack.segment_count(); ++s) {
      SegmentTokens whole = pack.segment_tokens(s);
      // The prompt ends before the first trained token.
      const auto answer = std::find(whole.trained.begin(), whole.trained.end(), 1);
      whole.ids.resize(static_cast<size_t>(answer - whole.trained.begin()));
      const auto at = static_cast<size_t>(s);
      packed.push_back(
          {pack.row_id[at], 0, std::make_shared<const std::vector<int32_t>>(std::move(whole.ids))});
      sides.push_back(pack.side[at]);
    }
  }
  // In batch order, not in that of the packs: draws must not depend on packing.
  std::vector<AskedPrompt> ordered;
  for (size_t i = 0; i < batch.segment_order().size(); ++i) {
    const auto at = static_cast<size_t>(batch.segment_order()[i]);
    if (sides[at] < 0) continue;  // a rejected side, whose prompt is that of the chosen one
    AskedPrompt prompt = packed[at];
    prompt.segment = static_cast<int64_t>(i);
    prompt.index = std::ssize(ordered);
    ordered.push_back(std::move(prompt));
  }
  name_draws(ordered);
  return ordered;
}

void check_options(const RolloutOptions& options) {
  const GenerateOptions& generate = options.text.generate;
  const auto refuse = [](const char* name, int64_t got, const char* why) {
    throw UsageError(fmt::format("{} is {}, wanted 1 or more: {}", name, got, why));
  };
  if (options.samples < 1) refuse("samples", options.samples, "the answers to each prompt");
  if (generate.max_new_tokens < 1) {
    refuse("max_tokens", generate.max_new_tokens, "a rollout trains the tokens of its answer");
  }
  check_sampling(generate.sampling);
  check_stop_strings(options.text.stop);
}

// Fails before sampling rather than after it.
void check_prompts(const std::vector<AskedPrompt>& prompts, const BatchInfo& info,
                   const AnswerRoom& room) {
  for (const AskedPrompt& prompt : prompts) {
    check_room(row_text(info, prompt.row), std::ssize(*prompt.ids), room);
  }
}

// The seed of the batch's draws.
uint64_t draw_seed(const RolloutOptions& options, const BatchInfo& info) {
  const uint64_t seed = options.text.generate.sampling.seed;
  // Steps have 0 in the last place, so none of them repeats these draws.
  if (options.draws == DrawScope::kRow) return philox_u64(seed, kStreamRollout, 0, 1);
  return philox_u64(seed, kStreamRollout, static_cast<uint64_t>(info.step), 0);
}

// Sets draw keys and stop ids; without a model, in a dry run, there are no stop ids.
TextOptions draw_options(const Model* model, const Policy& policy,
                         const std::vector<AskedPrompt>& prompts, const RolloutOptions& options,
                         const BatchInfo& info) {
  TextOptions text = options.text;
  text.generate.samples = options.samples;
  for (const AskedPrompt& prompt : prompts) text.generate.prompt_names.push_back(prompt.name);
  if (model != nullptr) text.generate.stop_ids = stop_ids_of(*model, *policy.tokenizer());
  text.generate.sampling.seed = draw_seed(options, info);
  return text;
}

// Makes the rollout of an answer.
std::shared_ptr<Rollout> rollout_of(TextSample answer, const AskedPrompt& prompt, int64_t sample,
                                    Policy& policy) {
  auto one = new_rollout(policy, prompt.row, prompt.ids, prompt.index, sample);
  one->ids = std::move(answer.generation.ids);
  one->logprobs = std::move(answer.generation.logprobs);
  one->logprobs_kept = std::move(answer.generation.logprobs_kept);
  // Rewards see the prompt as text, without special tokens.
  one->prompt_text = policy.tokenizer()->decode(*prompt.ids, true);
  one->routes = std::move(answer.generation.routes);
  if (one->routes) one->routed_by = &policy.model();  // random tokens have none
  one->text = std::move(answer.text);
  one->finish = std::move(answer.reason);
  return one;
}

// Returns the sampler's results, the samples of a prompt together.
//   finished  takes the rollouts of each prompt; may be empty
RolloutList draw(Model& model, Policy& policy, const std::vector<AskedPrompt>& prompts,
                 const RolloutOptions& options, const BatchInfo& info,
                 const std::function<void(RolloutList)>& finished) {
  TextOptions text = draw_options(&model, policy, prompts, options, info);
  text.generate.record_routes = options.replay_routes;
  // The sampler draws one token after the last position, which the trainer could not read.
  text.generate.max_length = model.config().max_length;
  std::vector<std::vector<int32_t>> ids;
  for (const AskedPrompt& prompt : prompts) ids.push_back(*prompt.ids);
  const auto prompt_at = [&](size_t p) {
    return AnswerHistory::HistoryPrompt{ids[p], text.generate.prompt_names[p],
                                        model.config().vocab};
  };
  for (size_t p = 0; options.history != nullptr && p < ids.size(); ++p) {
    text.generate.drafts.push_back(options.history->drafts(prompt_at(p), options.samples));
  }
  RolloutList list;
  size_t p = 0;
  text.finished = [&](std::vector<TextSample> samples) {
    RolloutList group;
    for (size_t s = 0; s < samples.size(); ++s) {
      const auto sample = static_cast<int64_t>(s);
      if (options.history != nullptr) {
        // The answer is the draft of the same row and sample in the next epoch.
        options.history->remember(prompt_at(p), sample, samples[s].generation.ids);
      }
      group.push_back(rollout_of(std::move(samples[s]), prompts[p], sample, policy));
    }
    ++p;
    list.insert(list.end(), group.begin(), group.end());
    if (finished) finished(std::move(group));
  };
  sample_text(model, *policy.tokenizer(), ids, text);
  return list;
}

RolloutList converse(Model* model, Policy& policy, const std::vector<AskedPrompt>& prompts,
                     const RolloutOptions& options, const BatchInfo& info) {
  XRUN_CHECK(info.conversations,
             "an environment needs the prompts of a data set, whose conversations it continues");
  std::vector<int64_t> rows;
  for (const AskedPrompt& prompt : prompts) rows.push_back(prompt.row);
  std::vector<Conversation> conversations = info.conversations(rows, *policy.tokenizer());
  std::vector<ConversationStart> starts;
  for (size_t p = 0; p < prompts.size(); ++p) {
    starts.push_back({prompts[p].row, prompts[p].ids, std::move(conversations[p])});
  }
  ConversationOptions asked{.text = draw_options(model, policy, prompts, options, info),
                            .environment = options.environment,
                            .history = options.history};
  asked.text.generate.record_routes = options.replay_routes;
  if (asked.environment.reply) {
    // An environment knows prompts by their index in the batch.
    asked.environment.reply = [&](size_t conversation, const Rollout& so_far) {
      const auto samples = static_cast<size_t>(options.samples);
      Rollout of_batch = so_far;
      of_batch.prompt = prompts[static_cast<size_t>(so_far.prompt)].index;
      return options.environment.reply(
          static_cast<size_t>(of_batch.prompt) * samples + conversation % samples, of_batch);
    };
  }
  RolloutList list = sample_conversations(policy, model, starts, asked, info);
  for (const auto& one : list) {
    one->prompt = prompts[static_cast<size_t>(one->prompt)].index;
    if (one->routes) one->routed_by = &policy.model();
  }
  return list;
}

// Gives the answers of other ranks to the history, so that a draft does not depend on who samples.
void remember_others(const RolloutList& sampled, const std::vector<AskedPrompt>& asked,
                     const Model& model, const RolloutOptions& options, const Ranks* ranks) {
  if (options.history == nullptr || options.environment.reply) return;
  for (const auto& one : sampled) {
    if (owns_prompt(ranks, one->prompt)) continue;
    const AskedPrompt& prompt = asked[static_cast<size_t>(one->prompt)];
    options.history->remember({*prompt.ids, prompt.name, model.config().vocab}, one->sample,
                              one->ids);
  }
}

// Makes the answers of a dry run. Their log-probs come later, from the stand-in itself.
//   limit  tokens of a prompt and its answer; 0: any number
RolloutList draw_stand_ins(Policy& policy, const std::vector<AskedPrompt>& prompts,
                           const RolloutOptions& options, const BatchInfo& info, int64_t limit) {
  RolloutList list;
  const auto per_prompt = static_cast<size_t>(options.samples);
  for (size_t i = 0; i < prompts.size() * per_prompt; ++i) {
    const uint64_t seed =
        philox_u64(info.seed, kStreamStandIn, static_cast<uint64_t>(info.step), i);
    const size_t p = i / per_prompt;
    int64_t most = options.text.generate.max_new_tokens;
    if (limit > 0) most = std::min(most, limit - std::ssize(*prompts[p].ids));
    list.push_back(rollout_of(stand_in_answer(*policy.tokenizer(), most, seed), prompts[p],
                              static_cast<int64_t>(i % per_prompt), policy));
  }
  return list;
}

// Derives the info of rollouts from that of their prompts.
BatchInfo rollout_info(BatchInfo info, const Policy& policy, double temperature) {
  info.unit = Unit::kToken;
  // Greedy answers have no temperature; their log-probs are those at 1.
  info.temperature = temperature > 0 ? temperature : 1;
  // The rows of the data set have other tokens, so no cached value belongs to these.
  info.data_key.clear();
  info.canonical_pack = nullptr;
  info.device = policy.options().device;
  return info;
}

}  // namespace

std::shared_ptr<Rollouts> rollout_batch(RolloutList list, const Batch& prompts,
                                        const std::vector<int64_t>& of, Policy& policy,
                                        double temperature) {
  take_row_weights(list, prompts, of);
  auto batch = std::make_shared<Rollouts>(rollout_info(prompts.info(), policy, temperature),
                                          std::move(list));
  batch->set_columns(prompts, of);
  if (policy.is_replaced()) batch->set_sampler_logprob(policy.token_logprob(*batch));
  return batch;
}

std::shared_ptr<Rollout> new_rollout(const Policy& policy, int64_t row,
                                     std::shared_ptr<const std::vector<int32_t>> prompt_ids,
                                     int64_t prompt, int64_t sample) {
  auto one = std::make_shared<Rollout>();
  one->row = row;
  one->prompt = prompt;
  one->sample = sample;
  one->version = policy.update_count();
  one->prompt_ids = std::move(prompt_ids);
  one->stand_in = policy.is_replaced();
  return one;
}

TextSample stand_in_answer(const Tokenizer& tokenizer, int64_t max_tokens, uint64_t seed) {
  constexpr int64_t kLongest = 16;
  const auto vocab = static_cast<uint64_t>(tokenizer.vocab_size());
  TextSample sample;
  const uint64_t length = 1 + seed % static_cast<uint64_t>(std::min(max_tokens, kLongest));
  for (uint64_t t = 0; t < length; ++t) {
    const uint64_t bits = philox_u64(seed, kStreamStandIn, 1, t);
    sample.generation.ids.push_back(static_cast<int32_t>(bits % vocab));
    // The stand-in gives them once the batch is made (rollout_batch).
    sample.generation.logprobs.push_back(0);
  }
  sample.text = tokenizer.decode(sample.generation.ids, true);
  sample.reason = "length";
  return sample;
}

std::shared_ptr<Rollouts> sample_rollouts(Policy& policy, Model* model, const Batch& prompts,
                                          const RolloutOptions& options) {
  check_options(options);
  check_columns(prompts);
  const std::vector<AskedPrompt> asked = prompts_of(prompts);
  const SamplingOptions& sampling = options.text.generate.sampling;
  // A dry run has no model, but refuses the same prompts.
  const int64_t limit =
      model == nullptr ? read_model_config(policy.dir()).max_length : model->config().max_length;
  check_prompts(asked, prompts.info(),
                {.max_tokens = options.text.generate.max_new_tokens,
                 .batch_tokens = prompts.info().max_tokens,
                 .model_tokens = limit});
  if (options.replay_routes && model != nullptr && model->config().moe.experts == 0) {
    throw UsageError("replay_routes is true, but the model is not a mixture of experts");
  }
  const bool dry = policy.is_replaced();
  const auto batch_of = [&](RolloutList list) {
    std::vector<int64_t> of;
    for (const auto& one : list) of.push_back(asked[static_cast<size_t>(one->prompt)].segment);
    return rollout_batch(std::move(list), prompts, of, policy, sampling.temperature);
  };
  std::function<void(RolloutList)> finished;
  if (options.finished) {
    finished = [&](RolloutList group) { options.finished(batch_of(std::move(group))); };
  }
  // A dry run is cheap, so every rank makes all of it.
  Ranks* const ranks = dry ? nullptr : prompts.info().ranks;
  std::vector<AskedPrompt> own;
  for (const AskedPrompt& prompt : asked) {
    if (owns_prompt(ranks, prompt.index)) own.push_back(prompt);
  }
  const auto sample = [&] {
    if (options.environment.reply) {
      return converse(dry ? nullptr : model, policy, own, options, prompts.info());
    }
    return dry ? draw_stand_ins(policy, own, options, prompts.info(), limit)
               : draw(*model, policy, own, options, prompts.info(), finished);
  };
  RolloutList sampled = share_rollouts(ranks, sample, [&](int64_t prompt, int64_t number) {
    const AskedPrompt& of = asked[static_cast<size_t>(prompt)];
    return new_rollout(policy, of.row, of.ids, prompt, number);
  });
  if (ranks != nullptr) {
    for (const auto& one : sampled) one->routed_by = one->routes ? &policy.model() : nullptr;
    remember_others(sampled, asked, *model, options, ranks);
  }
  return batch_of(std::move(sampled));
}

}  // namespace xrun
