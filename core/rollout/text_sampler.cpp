// tokens -> DecodeStream -> StopText -> text, one chain per sequence.

#include "core/rollout/text_sampler.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/rollout/text_stream.h"
#include "core/text/chat/chat_tokens.h"

namespace xrun {

namespace {

void add_once(std::vector<int32_t>& ids, int32_t id) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

}  // namespace

std::vector<TextSample> sample_text(Model& model, const Tokenizer& tokenizer,
                                    const std::vector<std::vector<int32_t>>& prompts,
                                    const TextOptions& options) {
  check_stop_strings(options.stop);
  GenerateOptions generation = options.generate;
  // A stop string that is one special token never appears in the text, so its id must stop.
  for (const int32_t id : special_stop_ids(tokenizer, options.stop)) {
    add_once(generation.stop_ids, id);
  }
  const auto sequences =
      prompts.size() * static_cast<size_t>(std::max<int64_t>(options.generate.samples, 0));
  std::vector<std::unique_ptr<TextStream>> streams(sequences);
  const auto say = [&](size_t sequence, const std::string& piece) {
    if (options.on_text && !piece.empty()) options.on_text(sequence, piece);
  };
  generation.on_token = [&](size_t sequence, int32_t id) {
    std::unique_ptr<TextStream>& stream = streams[sequence];
    // Made at the first token: prompts that still wait hold no stream.
    if (!stream) stream = std::make_unique<TextStream>(tokenizer, options.stop);
    say(sequence, stream->push(id));
    const bool asked = options.generate.on_token && options.generate.on_token(sequence, id);
    return asked || stream->stopped();
  };
  std::vector<TextSample> all;
  size_t next = 0;  // sequence
  generation.finished = [&](std::vector<Generation> generations) {
    std::vector<TextSample> samples;
    for (Generation& one : generations) {
      const size_t s = next++;
      TextSample& sample = samples.emplace_back();
      sample.reason = one.finish;
      sample.generation = std::move(one);
      if (!streams[s]) continue;  // no token was generated
      say(s, streams[s]->finish());
      sample.text = streams[s]->text();
      if (streams[s]->stopped()) sample.reason = "stop_string";
      streams[s].reset();
    }
    if (options.finished) return options.finished(std::move(samples));
    for (TextSample& sample : samples) all.push_back(std::move(sample));
  };
  generate(model, prompts, generation);
  return all;
}

std::vector<int32_t> special_stop_ids(const Tokenizer& tokenizer,
                                      const std::vector<std::string>& stops) {
  std::vector<int32_t> ids;
  for (const std::string& stop : stops) {
    const std::optional<int32_t> id = tokenizer.id_of(stop);
    if (id && tokenizer.is_special(*id)) add_once(ids, *id);
  }
  return ids;
}

std::vector<int32_t> stop_ids_of(const Model& model, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = model.config().stop_ids;
  if (tokenizer.eos_id()) add_once(ids, *tokenizer.eos_id());
  return ids;
}

std::optional<int32_t> turn_end_of(const Tokenizer& tokenizer, const ChatTemplate& chat_template) {
  // The first special token after the content of a rendered answer.
  const Json messages = parse_json(
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])", "messages");
  ChatTokens chat;
  try {
    chat = encode_chat(tokenizer, chat_template, messages, Json::object());
  } catch (const Error&) {
    return std::nullopt;  // the template rejects such messages
  }
  uint32_t answered = 0;
  for (const RenderSpan& span : chat.rendering.spans) {
    if (span.origin == Origin::kMessage) answered = span.end;
  }
  for (size_t t = 0; t < chat.ids.size(); ++t) {
    // `answered` is the end of the answer's own text in the rendering.
    const bool after = answered > 0 && chat.offsets[t].begin >= answered;
    if (after && tokenizer.is_special(chat.ids[t])) return chat.ids[t];
  }
  return std::nullopt;
}

}  // namespace xrun
