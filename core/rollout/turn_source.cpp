// Requests are answered in the order in which they were made, whichever finishes first.

#include "core/rollout/turn_source.h"

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "core/base/philox.h"
#include "core/rollout/rollout_sampler.h"
#include "core/rollout/text_stream.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

namespace {

// Answers of a model, one request for each turn of a conversation.
class ModelTurns : public TurnSource {
 public:
  ModelTurns(Model& model, const Tokenizer& tokenizer, const TextOptions& text)
      : tokenizer_(tokenizer),
        text_(text),
        stop_ids_(text.generate.stop_ids),
        sampler_(model, sampler_options(text.generate)) {
    for (const int32_t id : special_stop_ids(tokenizer, text.stop)) stop_ids_.push_back(id);
  }

  void ask(TurnRequest request) override {
    // A deque keeps its elements in place, which the sampler calls back.
    TextStreams& streams = asked_.emplace_back();
    for (int64_t s = 0; s < request.samples; ++s) {
      streams.push_back(std::make_unique<TextStream>(tokenizer_, text_.stop));
    }
    // All turns but the last keep their keys (`hold`): the next turn continues them.
    SampleRequest wanted{.prompt = std::move(request.ids),
                         .samples = request.samples,
                         .max_new_tokens = request.max_tokens,
                         .stop_ids = stop_ids_,
                         .sampling = text_.generate.sampling,
                         .prompt_key = request.prompt_key,
                         .first_sample = static_cast<uint32_t>(request.sample),
                         .hold = !request.is_last,
                         .drafts = std::move(request.drafts),
                         .record_routes = text_.generate.record_routes};
    wanted.on_token = [&streams](int64_t sample, int32_t id) {
      // A stop string may end inside a token, so the text decides, not the id.
      TextStream& stream = *streams[static_cast<size_t>(sample)];
      stream.push(id);
      return stream.stopped();
    };
    const Ticket ticket = sampler_.submit(std::move(wanted));
    for (int64_t s = 0; s < request.samples; ++s) {
      newest_[request.first + static_cast<size_t>(s)] = {ticket, s};
    }
  }

  std::vector<TextSample> next() override {
    // poll() returns groups in the order of submission; steps are made until the oldest is done.
    std::optional<SampledGroup> group = sampler_.poll();
    for (; !group; group = sampler_.poll()) {
      sampler_.step();
      const auto& progress = text_.generate.progress;
      if (progress && !progress(sampler_.counters().tokens)) sampler_.cancel_all();
    }
    std::vector<TextSample> turns;
    for (size_t s = 0; s < group->samples.size(); ++s) {
      TextStream& stream = *asked_.front()[s];
      stream.finish();
      TextSample& turn = turns.emplace_back();
      turn.generation = std::move(group->samples[s]);
      turn.text = stream.text();
      turn.reason = stream.stopped() ? "stop_string" : turn.generation.finish;
    }
    asked_.pop_front();
    return turns;
  }

  void end(size_t conversation) override {
    const auto [ticket, sample] = newest_.at(conversation);
    sampler_.release(ticket, sample);
  }

  void report() override {
    if (text_.generate.counted) text_.generate.counted(sampler_.counters());
  }

 private:
  using TextStreams = std::vector<std::unique_ptr<TextStream>>;

  const Tokenizer& tokenizer_;
  const TextOptions& text_;
  std::vector<int32_t> stop_ids_;
  std::deque<TextStreams> asked_;
  // The request and sample of each conversation's newest turn.
  std::map<size_t, std::pair<Ticket, int64_t>> newest_;
  Sampler sampler_;  // last: it calls the streams
};

// Answers without a model, for dry runs.
class RandomTurns : public TurnSource {
 public:
  RandomTurns(const Tokenizer& tokenizer, const BatchInfo& info)
      : tokenizer_(tokenizer),
        seed_(philox_u64(info.seed, kStreamStandIn, static_cast<uint64_t>(info.step), 1)) {}

  void ask(TurnRequest request) override { asked_.push_back(std::move(request)); }

  std::vector<TextSample> next() override {
    const TurnRequest request = std::move(asked_.front());
    asked_.pop_front();
    std::vector<TextSample> turns;
    for (size_t s = 0; s < static_cast<size_t>(request.samples); ++s) {
      turns.push_back(stand_in_answer(
          tokenizer_, request.max_tokens,
          // By conversation and length, so that turns of one conversation differ and a rerun
          // repeats them.
          philox_u64(seed_, kStreamStandIn, request.first + s, request.ids.size())));
      turns.back().reason = "stop";
    }
    return turns;
  }

 private:
  const Tokenizer& tokenizer_;
  uint64_t seed_;
  std::deque<TurnRequest> asked_;
};

}  // namespace

std::unique_ptr<TurnSource> model_turns(Model& model, const Tokenizer& tokenizer,
                                        const TextOptions& text) {
  return std::make_unique<ModelTurns>(model, tokenizer, text);
}

std::unique_ptr<TurnSource> random_turns(const Tokenizer& tokenizer, const BatchInfo& info) {
  return std::make_unique<RandomTurns>(tokenizer, info);
}

}  // namespace xrun
