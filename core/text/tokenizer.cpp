// A text is cut at added tokens that are looked for as they stand; what is left is normalised, cut
// at the other added tokens, cut into pieces, and tokenised by the model.

#include "core/text/tokenizer.h"

#include <simdjson.h>

#include "core/base/error.h"
#include "core/text/decode_stream.h"
#include "core/text/tokenizer_parts.h"

namespace xrun {

namespace {

// Calls plain(begin, end) for what lies between matches and match(m) for each of them, in order.
template <class Plain, class Match>
void walk(size_t size, const std::vector<AddedMatch>& matches, Plain plain, Match match) {
  size_t done = 0;
  for (const AddedMatch& m : matches) {
    if (done < m.begin) plain(done, m.begin);
    match(m);
    done = m.end;
  }
  if (done < size) plain(done, size);
}

}  // namespace

std::string_view Tokenizer::Parts::piece(int32_t id) const {
  if (const AddedToken* token = added.find(id)) return token->content;
  const Vocabulary& vocabulary = stages.model->vocabulary();
  return vocabulary.has(id) ? vocabulary.piece(id) : std::string_view();
}

std::optional<int32_t> Tokenizer::Parts::id_of(std::string_view piece) const {
  if (const AddedToken* token = added.find(piece)) return token->id;
  return stages.model->vocabulary().find(piece);
}

void Tokenizer::Parts::encode_plain(AlignedText text, Encoding& out) const {
  PieceList list;
  list.pieces.push_back({0, uint32_t(text.size())});
  list.text = std::move(text);
  if (stages.pre_tokenizer) stages.pre_tokenizer->apply(list);
  thread_local std::vector<ModelToken> tokens;
  tokens.clear();
  const bool is_first = !list.pieces.empty() &&
                        list.text.origin(list.pieces[0].begin, list.pieces[0].end).begin == 0;
  if (is_first) {
    stages.model->tokenize(list.text.text(), list.pieces, tokens);
  } else {
    stages.model->tokenize_inner(list.text.text(), list.pieces, tokens);
  }
  for (const ModelToken& token : tokens) {
    out.ids.push_back(token.id);
    out.offsets.push_back(list.text.origin(token.begin, token.end));
  }
}

void Tokenizer::Parts::encode_section(AlignedText text, const SpecialRanges& special,
                                      Encoding& out) const {
  if (stages.normalizer) stages.normalizer->apply(text);
  if (text.size() == 0) return;
  std::vector<AddedMatch> matches;
  added.find_all(text, true, special, matches);
  if (matches.empty()) return encode_plain(std::move(text), out);
  walk(
      text.size(), matches,
      [&](size_t begin, size_t end) { encode_plain(text.slice(begin, end), out); },
      [&](const AddedMatch& m) {
        out.ids.push_back(m.id);
        out.offsets.push_back(text.origin(m.begin, m.end));
      });
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& dir) {
  return std::shared_ptr<const Tokenizer>(new Tokenizer(load_tokenizer_parts(dir)));
}

void Tokenizer::finish_loading() const { parts_->stages.model->finish_loading(); }

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  XRUN_CHECK(text.size() < UINT32_MAX, "a text of {} bytes is too long to be tokenised at once",
             text.size());
  const bool valid = simdjson::validate_utf8(text.data(), text.size());
  Encoding out;
  const AlignedText whole = valid ? AlignedText(text, 0) : repaired_text(text, out.replaced);
  const SpecialRanges special(options);
  std::vector<AddedMatch> matches;
  parts_->added.find_all(whole, false, special, matches);
  walk(
      whole.size(), matches,
      [&](size_t begin, size_t end) {
        parts_->encode_section(whole.slice(begin, end), special, out);
      },
      [&](const AddedMatch& m) {
        out.ids.push_back(m.id);
        out.offsets.push_back(whole.origin(m.begin, m.end));
      });
  if (parts_->stages.post_processor) {
    const auto spelling = [&](int32_t id, ByteRange range) {
      if (parts_->added.find(id) == nullptr) return parts_->piece(id);
      return text.substr(range.begin, range.end - range.begin);
    };
    const PostContext context{text, spelling, options.add_post_processor};
    parts_->stages.post_processor->apply(out, context);
  }
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  DecodeStream stream(*this, skip_special);
  for (const int32_t id : ids) stream.take(id);
  return stream.finish();
}

int64_t Tokenizer::vocab_size() const { return parts_->vocab_size; }

std::optional<int32_t> Tokenizer::id_of(std::string_view piece) const {
  return parts_->id_of(piece);
}

std::string_view Tokenizer::piece(int32_t id) const { return parts_->piece(id); }

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = parts_->added.find(id);
  return token != nullptr && token->special;
}

std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos.id; }
std::optional<int32_t> Tokenizer::eos_id() const { return parts_->eos.id; }
std::optional<int32_t> Tokenizer::pad_id() const { return parts_->pad.id; }
const std::string& Tokenizer::bos_token() const { return parts_->bos.text; }
const std::string& Tokenizer::eos_token() const { return parts_->eos.text; }
const std::string& Tokenizer::pad_token() const { return parts_->pad.text; }
const std::string& Tokenizer::unk_token() const { return parts_->unk.text; }
const std::string& Tokenizer::chat_template() const { return parts_->chat_template; }
const std::string& Tokenizer::digest() const { return parts_->digest; }

std::vector<int32_t> Tokenizer::leading_bos() const {
  std::vector<int32_t> ids;
  if (parts_->stages.post_processor) parts_->stages.post_processor->leading(ids);
  return ids;
}

}  // namespace xrun
