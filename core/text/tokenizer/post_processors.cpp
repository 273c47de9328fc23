// The post-processors of Hugging Face's tokenizers. kPostProcessors at the end lists them.

#include "core/text/tokenizer/post_processors.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

// `piece` may be input bytes that are not UTF-8, which an added token of U+FFFD matches.
bool is_blank(std::string_view piece, size_t at) {
  constexpr uint32_t kSpelledSpace = 0x120;  // a space in the byte alphabet
  const uint32_t c = read_utf8(piece, at).value;
  return c == kSpelledSpace || char_kind(c) == CharKind::kSpace;
}

void trim_range(const PostContext& context, std::string_view piece, bool is_first,
                bool prefix_space, ByteRange& range) {
  uint32_t leading = 0, trailing = 0;
  for (size_t at = 0; at < piece.size() && is_blank(piece, at); at += utf8_size(piece[at])) {
    ++leading;
  }
  for (size_t at = piece.size(); at > 0 && is_blank(piece, utf8_before(piece, at));
       at = utf8_before(piece, at)) {
    ++trailing;
  }
  // A single space before the first word counts as the one that add_prefix_space put there.
  if ((is_first || range.begin == 0) && prefix_space && leading == 1) leading = 0;
  // Each blank of the spelling takes one character of the input off the range.
  for (; leading > 0 && range.begin < range.end; --leading) {
    range.begin = std::min(range.begin + read_utf8(context.text, range.begin).size, range.end);
  }
  for (; trailing > 0 && range.begin < range.end; --trailing) {
    range.end = std::max(uint32_t(utf8_before(context.text, range.end)), range.begin);
  }
}

// Takes one character off the range of each token for each space at the ends of its spelling, even
// if the range does not cover that space (one inserted by add_prefix_space maps to the character
// after it).
void trim_offsets(Encoding& encoding, const PostContext& context, bool prefix_space) {
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    trim_range(context, context.spelling(encoding.ids[i], encoding.offsets[i]),
               i == 0 && context.at_begin, prefix_space, encoding.offsets[i]);
  }
}

class SurroundingProcessor : public PostProcessor {
 public:
  SurroundingProcessor(std::vector<int32_t> before, std::vector<int32_t> after)
      : before_(std::move(before)), after_(std::move(after)) {}
  void apply(Encoding& encoding, const PostContext& context) const override {
    if (!context.add_tokens) return;
    // Tokens that cover no text.
    const ByteRange nothing{0, 0};
    encoding.ids.insert(encoding.ids.begin(), before_.begin(), before_.end());
    encoding.offsets.insert(encoding.offsets.begin(), before_.size(), nothing);
    encoding.ids.insert(encoding.ids.end(), after_.begin(), after_.end());
    encoding.offsets.insert(encoding.offsets.end(), after_.size(), nothing);
  }
  void leading(std::vector<int32_t>& ids) const override {
    ids.insert(ids.end(), before_.begin(), before_.end());
  }
  void each_id(const std::function<void(int64_t id)>& check) const override {
    for (const int32_t id : before_) check(id);
    for (const int32_t id : after_) check(id);
  }

 private:
  std::vector<int32_t> before_;
  std::vector<int32_t> after_;
};

// Reads ["[CLS]", 101].
int32_t read_named_id(const ComponentSpec& spec, const std::string& key) {
  const Json& pair = spec.member(key).json();
  const bool good = pair.is_array() && pair.size() == 2 && pair.as_array()[0].is_string() &&
                    pair.as_array()[1].is_int();
  XRUN_CHECK(good, "{}.{}: wanted [\"name\", id]", spec.where(), key);
  const int64_t id = pair.as_array()[1].as_int();
  XRUN_CHECK(id >= 0 && id <= INT32_MAX, "{}.{}: got the id {}", spec.where(), key, id);
  return int32_t(id);
}

// BertProcessing: one token before the text and one after it.
class BertProcessor : public SurroundingProcessor {
 public:
  explicit BertProcessor(const ComponentSpec& spec)
      : SurroundingProcessor({read_named_id(spec, "cls")}, {read_named_id(spec, "sep")}) {}
};

// RobertaProcessing: BertProcessing, and trims offsets like ByteLevel.
class RobertaProcessor : public BertProcessor {
 public:
  explicit RobertaProcessor(const ComponentSpec& spec)
      : BertProcessor(spec),
        trim_(spec.boolean("trim_offsets")),
        prefix_space_(spec.boolean("add_prefix_space")) {}
  void apply(Encoding& encoding, const PostContext& context) const override {
    if (trim_) trim_offsets(encoding, context, prefix_space_);
    BertProcessor::apply(encoding, context);
  }

 private:
  bool trim_;
  bool prefix_space_;
};

// ByteLevel: with trim_offsets, the range of a token excludes the spaces at its ends.
class ByteLevelProcessor : public PostProcessor {
 public:
  explicit ByteLevelProcessor(const ComponentSpec& spec)
      : trim_(spec.boolean("trim_offsets", true)),
        prefix_space_(spec.boolean("add_prefix_space", true)) {}
  void apply(Encoding& encoding, const PostContext& context) const override {
    if (trim_) trim_offsets(encoding, context, prefix_space_);
  }

 private:
  bool trim_;
  bool prefix_space_;
};

class SequenceProcessor : public PostProcessor {
 public:
  explicit SequenceProcessor(const ComponentSpec& spec)
      : stages_(make_each(spec.list("processors"), &make_post_processor)) {}
  void apply(Encoding& encoding, const PostContext& context) const override {
    for (const auto& stage : stages_) stage->apply(encoding, context);
  }
  void leading(std::vector<int32_t>& ids) const override {
    // Each stage surrounds the result of those before it, so the tokens of the last stage come
    // first.
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) (*stage)->leading(ids);
  }
  void each_id(const std::function<void(int64_t id)>& check) const override {
    for (const auto& stage : stages_) stage->each_id(check);
  }

 private:
  std::vector<std::unique_ptr<const PostProcessor>> stages_;
};

// Appends the ids that "special_tokens" gives for a piece of the template.
void add_template_ids(const ComponentSpec& spec, const ComponentSpec& piece,
                      std::vector<int32_t>& out) {
  const std::string& name = piece.member("SpecialToken").text("id");
  const ComponentSpec ids = spec.member("special_tokens").member(name);
  XRUN_CHECK(ids.member("ids").json().is_array(), "{}.ids: wanted an array", ids.where());
  for (const Json& id : ids.member("ids").json().as_array()) {
    XRUN_CHECK(id.is_int() && id.as_int() >= 0 && id.as_int() <= INT32_MAX, "{}.ids: wanted ids",
               ids.where());
    out.push_back(int32_t(id.as_int()));
  }
}

// TemplateProcessing: fixed tokens before and after the text, from the template "single".
std::unique_ptr<const PostProcessor> make_template_processor(const ComponentSpec& spec) {
  std::vector<int32_t> before, after;
  // "pair" is ignored: a text is always encoded alone.
  size_t texts = 0;
  for (const ComponentSpec& piece : spec.list("single")) {
    if (piece.has("Sequence")) {
      const std::string& id = piece.member("Sequence").text("id");
      XRUN_CHECK(id == "A", "{}.Sequence.id: got \"{}\", wanted \"A\" in \"single\"", piece.where(),
                 id);
      ++texts;
      continue;
    }
    add_template_ids(spec, piece, texts > 0 ? after : before);
  }
  XRUN_CHECK(texts == 1, "{}.single: the text appears {} times, wanted once", spec.where(), texts);
  return make_surrounding_processor(std::move(before), std::move(after));
}

constexpr ComponentType<PostProcessor> kPostProcessors[] = {
    {"BertProcessing", make_component<PostProcessor, BertProcessor>},
    {"ByteLevel", make_component<PostProcessor, ByteLevelProcessor>},
    {"RobertaProcessing", make_component<PostProcessor, RobertaProcessor>},
    {"Sequence", make_component<PostProcessor, SequenceProcessor>},
    {"TemplateProcessing", make_template_processor},
};

}  // namespace

std::unique_ptr<const PostProcessor> make_post_processor(const ComponentSpec& spec) {
  return make_from_table<PostProcessor>(kPostProcessors, spec);
}

std::unique_ptr<const PostProcessor> make_surrounding_processor(std::vector<int32_t> before,
                                                                std::vector<int32_t> after) {
  return std::make_unique<SurroundingProcessor>(std::move(before), std::move(after));
}

}  // namespace xrun
