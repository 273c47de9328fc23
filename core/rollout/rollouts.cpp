// segment = prompt + answer; trained = the answer. The sampler is called at one place, draw().

#include "core/rollout/rollouts.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/strings.h"
#include "core/data/packs/pack.h"
#include "core/data/packs/pack_plan.h"
#include "core/model/model.h"
#include "core/model/weights/hf_config.h"
#include "core/prefix/fold_settings.h"
#include "core/rollout/answer_text.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/logprob_stand_in.h"
#include "core/train/policy.h"

namespace xrun {

namespace {

// Fields and methods that rollouts have themselves; an extra column of such a name would be hidden.
constexpr const char* kRolloutFields[] = {"advantage",   "filter",       "finish", "minibatches",
                                          "old_logprob", "prompt",       "reward", "sample",
                                          "score",       "score_groups", "text",   "version"};

bool is_rollout_field(const std::string& name) {
  return std::find(std::begin(kRolloutFields), std::end(kRolloutFields), name) !=
         std::end(kRolloutFields);
}

std::vector<int32_t> whole_ids(const Rollout& one) {
  std::vector<int32_t> ids = *one.prompt_ids;
  ids.insert(ids.end(), one.ids.begin(), one.ids.end());
  return ids;
}

std::string row_text(const BatchInfo& info, int64_t row) {
  return info.row_name && row >= 0 ? info.row_name(row) : fmt::format("row {}", row);
}

std::vector<PackedBatch> pack_rollouts(const BatchInfo& info, const RolloutList& rollouts) {
  if (rollouts.empty()) return {PackedBatch{}};
  std::vector<std::vector<int32_t>> ids;
  std::vector<int64_t> sizes;
  for (const auto& one : rollouts) {
    ids.push_back(whole_ids(*one));
    sizes.push_back(std::ssize(ids.back()));
    XRUN_CHECK(info.max_tokens == 0 || sizes.back() <= info.max_tokens,
               "{}: prompt and answer have {} tokens, batch.max_tokens is {}; raise it, or lower "
               "max_tokens of the sampling",
               row_text(info, one->row), count_text(sizes.back()), count_text(info.max_tokens));
  }
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const PackLimits limits = pack_limits(info.max_tokens > 0 ? info.max_tokens : all, info.fold);
  std::vector<UnitTokens> units;
  for (const std::vector<int32_t>& one : ids) units.push_back({TokenList(one)});
  std::vector<PackedBatch> packs;
  for (const std::vector<int64_t>& pack : limits.fold
                                              ? plan_folded_packs(units, limits)
                                              : best_fit_decreasing(sizes, limits.max_tokens)) {
    PackedBatch& out = packs.emplace_back();
    for (const int64_t i : pack) {
      const auto at = static_cast<size_t>(i);
      const Rollout& one = *rollouts[at];
      std::vector<uint8_t> trained(ids[at].size(), 0);
      std::fill(trained.begin() + std::ssize(*one.prompt_ids), trained.end(), 1);
      out.append({.row_id = one.row, .group_id = one.prompt, .segment_id = i}, ids[at], trained);
    }
  }
  weigh_shared_rows(packs, info.fold);
  return packs;
}

template <typename Value>
at::Tensor numbers_of(const RolloutList& rollouts, at::ScalarType type, const Value& value) {
  std::vector<double> values;
  for (const auto& one : rollouts) values.push_back(static_cast<double>(value(*one)));
  return at::tensor(values, at::kDouble).to(type);
}

template <typename Value>
std::vector<std::string> strings_of(const RolloutList& rollouts, const Value& value) {
  std::vector<std::string> values;
  for (const auto& one : rollouts) values.push_back(value(*one));
  return values;
}

at::Tensor index_tensor(const std::vector<int64_t>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong));
}

// Copies the fields of a batch that are not its own: member i of `to` gets those of segment
// `of[i]`; fields per trained token only where `rows` names the rows.
void copy_fields(const Batch& from, Batch& to, const std::vector<int64_t>& of,
                 const std::vector<int64_t>* rows) {
  if (from.micros().empty() || from.size() == 0) return;
  static const std::vector<std::string> own = MicroBatch::own_field_names();
  for (const std::string& name : from.field_names()) {
    if (std::find(own.begin(), own.end(), name) != own.end()) continue;
    if (const auto texts = from.strings(name)) {
      std::vector<std::string> values;
      for (const int64_t i : of) values.push_back((*texts)[static_cast<size_t>(i)]);
      to.set_strings(name, values);
      continue;
    }
    bool by_row = false;
    from.micros().front()->field(name, &by_row);
    if (by_row && rows == nullptr) continue;
    const at::Tensor values = from.field(name);
    // A field given per pair has another length; both sides of a pair have its value.
    if (!by_row && values.numel() != from.size()) continue;
    to.set_field(name, at::index_select(values.to(at::kCPU), 0, index_tensor(by_row ? *rows : of)),
                 by_row ? Unit::kToken : Unit::kSequence);
  }
}

}  // namespace

Rollouts::Rollouts(BatchInfo info, RolloutList rollouts)
    : Batch(info, pack_rollouts(info, rollouts)), rollouts_(std::move(rollouts)) {
  const auto field = [&](const char* name, const auto& value) {
    set_field(name, numbers_of(rollouts_, at::kLong, value), Unit::kSequence);
  };
  field("sample", [](const Rollout& one) { return one.sample; });
  field("version", [](const Rollout& one) { return one.version; });
  std::vector<float> logprobs;
  for (const auto& one : rollouts_) {
    logprobs.insert(logprobs.end(), one->logprobs.begin(), one->logprobs.end());
  }
  set_field("old_logprob", float_tensor(logprobs), Unit::kToken);
  set_strings("prompt", strings_of(rollouts_, [](const Rollout& one) { return one.prompt_text; }));
  set_strings("text", strings_of(rollouts_, [](const Rollout& one) { return one.text; }));
  set_strings("finish", strings_of(rollouts_, [](const Rollout& one) { return one.finish; }));
}

std::shared_ptr<Rollouts> Rollouts::subset(const std::vector<int64_t>& indices) const {
  std::vector<int64_t> begin = {0};  // the loss rows of rollout i are [begin[i], begin[i + 1])
  for (const auto& one : rollouts_) begin.push_back(begin.back() + std::ssize(one->ids));
  RolloutList chosen;
  std::vector<int64_t> rows;
  for (const int64_t i : indices) {
    const auto at = static_cast<size_t>(i);
    chosen.push_back(rollouts_[at]);
    for (int64_t row = begin[at]; row < begin[at + 1]; ++row) rows.push_back(row);
  }
  auto made = std::make_shared<Rollouts>(info(), std::move(chosen));
  copy_fields(*this, *made, indices, &rows);
  return made;
}

void Rollouts::set_rewards() {
  set_field(
      "reward",
      numbers_of(rollouts_, at::kFloat, [](const Rollout& one) { return one.reward.value(); }),
      Unit::kSequence);
}

bool Rollouts::vary_stand_ins() {
  if (rollouts_.empty() || !rollouts_.front()->stand_in) return false;
  const bool equal = std::all_of(rollouts_.begin(), rollouts_.end(), [&](const auto& one) {
    return one->reward == rollouts_.front()->reward;
  });
  if (!equal) return false;
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    rollouts_[i]->reward =
        philox_unit(info().seed, kStreamStandIn, static_cast<uint64_t>(info().step), i);
  }
  return true;
}

std::vector<std::vector<int64_t>> Rollouts::groups() const {
  std::vector<std::vector<int64_t>> groups;
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    if (i == 0 || rollouts_[i]->prompt != rollouts_[i - 1]->prompt) groups.emplace_back();
    groups.back().push_back(static_cast<int64_t>(i));
  }
  return groups;
}

std::vector<std::vector<int64_t>> Rollouts::minibatches(int64_t epochs, int64_t groups) const {
  XRUN_CHECK(epochs >= 1, "epochs is {}, wanted 1 or more", epochs);
  XRUN_CHECK(groups >= 1, "groups is {}, wanted 1 or more", groups);
  const std::vector<std::vector<int64_t>> all = this->groups();
  std::vector<std::vector<int64_t>> batches;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const uint64_t seed =
        philox_u64(info().seed, kStreamMinibatch, static_cast<uint64_t>(info().step),
                   static_cast<uint64_t>(epoch));
    // Fisher-Yates. A modulus of 64 random bits is biased by less than 2^-40 for any batch.
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[philox_u64(seed, kStreamMinibatch, 0, i) % i]);
    }
    for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(groups)) {
      std::vector<int64_t>& batch = batches.emplace_back();
      const size_t end = std::min(order.size(), begin + static_cast<size_t>(groups));
      for (size_t g = begin; g < end; ++g) {
        batch.insert(batch.end(), all[order[g]].begin(), all[order[g]].end());
      }
      std::sort(batch.begin(), batch.end());
    }
  }
  return batches;
}

namespace {

struct Prompt {
  int64_t row, segment;  // of the data set, and of the batch
  std::shared_ptr<const std::vector<int32_t>> ids;
};

std::vector<Prompt> prompts_of(const Batch& batch) {
  std::vector<Prompt> packed;
  std::vector<int8_t> sides;
  for (const auto& micro : batch.micros()) {
    const PackedBatch& pack = micro->pack();
    for (int64_t s = 0; s < pack.segment_count(); ++s) {
      SegmentTokens whole = pack.segment_tokens(s);
      const auto answer = std::find(whole.trained.begin(), whole.trained.end(), 1);
      whole.ids.resize(static_cast<size_t>(answer - whole.trained.begin()));
      const auto at = static_cast<size_t>(s);
      packed.push_back(
          {pack.row_id[at], 0, std::make_shared<const std::vector<int32_t>>(std::move(whole.ids))});
      sides.push_back(pack.side[at]);
    }
  }
  std::vector<Prompt> ordered;
  for (size_t i = 0; i < batch.segment_order().size(); ++i) {
    const auto at = static_cast<size_t>(batch.segment_order()[i]);
    if (sides[at] < 0) continue;  // it has the prompt of the chosen side
    Prompt prompt = packed[at];
    prompt.segment = static_cast<int64_t>(i);
    ordered.push_back(std::move(prompt));
  }
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

// The longest answer must fit a micro-batch: an error before sampling rather than after it.
void check_room(const std::vector<Prompt>& prompts, const BatchInfo& info, int64_t max_tokens,
                int64_t model_length) {
  for (const Prompt& prompt : prompts) {
    const int64_t length = std::ssize(*prompt.ids);
    XRUN_CHECK(length > 0, "{}: the prompt is empty", row_text(info, prompt.row));
    XRUN_CHECK(model_length == 0 || length < model_length,
               "{}: the prompt has {} tokens, which leaves none of the model's {} for an answer",
               row_text(info, prompt.row), count_text(length), count_text(model_length));
    // The model's own limit may end an answer earlier.
    const int64_t most =
        model_length > 0 ? std::min(model_length, length + max_tokens) : length + max_tokens;
    XRUN_CHECK(info.max_tokens == 0 || most <= info.max_tokens,
               "{}: a prompt of {} tokens and max_tokens = {} of an answer exceed batch.max_tokens "
               "= {}; raise it to {}, or lower max_tokens",
               row_text(info, prompt.row), count_text(length), count_text(max_tokens),
               count_text(info.max_tokens), count_text(most));
  }
}

// Names of the prompts in draw keys: the row, and for a row that occurs again how often it did.
// Rows are below 2^34, a name is below 2^44.
std::vector<uint64_t> draw_names(const std::vector<Prompt>& prompts) {
  std::map<int64_t, uint64_t> seen;
  std::vector<uint64_t> names;
  for (const Prompt& prompt : prompts) {
    const auto row = static_cast<uint64_t>(std::max<int64_t>(prompt.row, 0));
    names.push_back(row + (seen[prompt.row]++ << 34));
  }
  return names;
}

// The sampler's results, samples of a prompt together.
std::vector<TextSample> draw(Model& model, const Policy& policy, const std::vector<Prompt>& prompts,
                             const RolloutOptions& options, const BatchInfo& info) {
  TextOptions text = options.text;
  text.generate.samples = options.samples;
  text.generate.prompt_names = draw_names(prompts);
  text.generate.stop_ids = stop_ids_of(model, *policy.tokenizer());
  text.generate.sampling.seed =
      philox_u64(text.generate.sampling.seed, kStreamRollout, static_cast<uint64_t>(info.step), 0);
  std::vector<std::vector<int32_t>> ids;
  for (const Prompt& prompt : prompts) ids.push_back(*prompt.ids);
  return sample_text(model, *policy.tokenizer(), ids, text);
}

// Stand-in answers of a dry run: a few random tokens each. Their log-probs come later, from the
// stand-in itself.
std::vector<TextSample> draw_stand_ins(const Policy& policy, const std::vector<Prompt>& prompts,
                                       const RolloutOptions& options, const BatchInfo& info) {
  constexpr int64_t kLongest = 16;
  const auto vocab = static_cast<uint64_t>(policy.tokenizer()->vocab_size());
  std::vector<TextSample> samples;
  for (size_t i = 0; i < prompts.size() * static_cast<size_t>(options.samples); ++i) {
    const uint64_t seed =
        philox_u64(info.seed, kStreamStandIn, static_cast<uint64_t>(info.step), i);
    const auto most =
        static_cast<uint64_t>(std::min(options.text.generate.max_new_tokens, kLongest));
    TextSample& sample = samples.emplace_back();
    const uint64_t length = 1 + seed % most;
    for (uint64_t t = 0; t < length; ++t) {
      const uint64_t bits = philox_u64(seed, kStreamStandIn, 1, t);
      sample.generation.ids.push_back(static_cast<int32_t>(bits % vocab));
      sample.generation.logprobs.push_back(0);
    }
    sample.text = policy.tokenizer()->decode(sample.generation.ids, true);
    sample.reason = "length";
  }
  return samples;
}

RolloutList make_list(std::vector<TextSample> samples, const std::vector<Prompt>& prompts,
                      int64_t per_prompt, const Policy& policy) {
  RolloutList list;
  for (size_t i = 0; i < samples.size(); ++i) {
    const size_t p = i / static_cast<size_t>(per_prompt);
    auto one = std::make_shared<Rollout>();
    one->row = prompts[p].row;
    one->prompt = static_cast<int64_t>(p);
    one->sample = static_cast<int64_t>(i) % per_prompt;
    one->version = policy.update_count();
    one->prompt_ids = prompts[p].ids;
    one->ids = std::move(samples[i].generation.ids);
    one->logprobs = std::move(samples[i].generation.logprobs);
    one->prompt_text = policy.tokenizer()->decode(*prompts[p].ids, true);
    one->text = std::move(samples[i].text);
    one->finish = std::move(samples[i].reason);
    one->stand_in = policy.is_replaced();
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

std::shared_ptr<Rollouts> sample_rollouts(Policy& policy, Model* model, const Batch& prompts,
                                          const RolloutOptions& options) {
  check_options(options);
  for (const std::string& name : prompts.field_names()) {
    XRUN_CHECK(!is_rollout_field(name),
               "the prompts have a column \"{}\", which is a field of rollouts; rename the column",
               name);
  }
  const std::vector<Prompt> asked = prompts_of(prompts);
  const SamplingOptions& sampling = options.text.generate.sampling;
  check_room(asked, prompts.info(), options.text.generate.max_new_tokens,
             model == nullptr ? 0 : model->config().max_length);
  const bool dry = policy.is_replaced();
  std::vector<TextSample> samples = dry ? draw_stand_ins(policy, asked, options, prompts.info())
                                        : draw(*model, policy, asked, options, prompts.info());
  BatchInfo info = prompts.info();
  info.unit = Unit::kToken;
  // Greedy answers report log-probs at temperature 1.
  info.temperature = sampling.temperature > 0 ? sampling.temperature : 1;
  // The rows of the data set have other tokens, so no cached value belongs to these.
  info.data_key.clear();
  info.canonical_pack = nullptr;
  info.device = policy.options().device;
  auto made = std::make_shared<Rollouts>(
      std::move(info), make_list(std::move(samples), asked, options.samples, policy));
  std::vector<int64_t> of;
  for (const auto& one : made->rollouts()) {
    of.push_back(asked[static_cast<size_t>(one->prompt)].segment);
  }
  copy_fields(prompts, *made, of, nullptr);
  if (dry) made->set_field("old_logprob", policy.token_logprob(*made), Unit::kToken);
  return made;
}

}  // namespace xrun
