// The decoders of Hugging Face's tokenizers. kDecoders at the end lists them. ByteLevel and
// Metaspace share files with their pre-tokenizers.

#include "core/text/tokenizer/token_decoders.h"

#include "core/base/utf8.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/text_pattern.h"

namespace xrun {

namespace {

// Removes the spaces before . ? ! , and English contractions, as WordPiece cleans a text; " do
// not" becomes " don't".
std::string without_token_spaces(std::string text) {
  // In this order, as in Hugging Face's cleanup.
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) {
    if (text.find(from) != std::string::npos) text = replaced(text, from, to);
  }
  return text;
}

// BPEDecoder: the suffix that ends a word becomes a space, or nothing in the last token. So each
// token is held back until the next one.
class BpeDecoder : public TokenDecoder {
 public:
  explicit BpeDecoder(const ComponentSpec& spec) : suffix_(spec.text("suffix")) {}
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return std::make_unique<BpeStage>(input, next, suffix_);
  }

 private:
  class BpeStage : public DecodeStage {
   public:
    BpeStage(DecoderInput input, DecodeStage& next, const std::string& suffix)
        : input_(input), next_(next), suffix_(suffix) {}
    void push(std::string_view text) override {
      if (input_ == DecoderInput::kTokens) {
        if (has_token_) next_.push(replaced(token_, suffix_, " "));
        token_.clear();
      }
      token_ += text;
      has_token_ = true;
    }
    void finish() override {
      if (has_token_) next_.push(replaced(token_, suffix_, ""));
      next_.finish();
    }

   private:
    DecoderInput input_;
    DecodeStage& next_;
    const std::string& suffix_;
    std::string token_;
    bool has_token_ = false;
  };

  std::string suffix_;
};

// ByteFallback: a run of tokens <0x00> to <0xFF> becomes its text; a run that is not UTF-8 becomes
// one U+FFFD per token. No byte of a run is certain before its end.
class ByteFallbackDecoder : public TokenDecoder {
 public:
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return std::make_unique<ByteStage>(input, next);
  }

 private:
  class ByteStage : public DecodeStage {
   public:
    ByteStage(DecoderInput input, DecodeStage& next) : input_(input), next_(next) {}
    void push(std::string_view text) override {
      // After Fuse there is one token, in fragments, which may spell <0x0A> only as a whole.
      if (input_ == DecoderInput::kFragments) {
        whole_ += text;
      } else {
        take(text);
      }
    }
    void finish() override {
      if (input_ == DecoderInput::kFragments) take(whole_);
      flush();
      next_.finish();
    }

   private:
    void take(std::string_view token) {
      const int byte = spelled_byte(token);
      if (byte >= 0) {
        run_.push_back(char(byte));
        return;
      }
      flush();
      next_.push(token);
    }
    // Called at the first other token and at the end: until then the run may become valid.
    void flush() {
      if (is_valid_utf8(run_)) {
        if (!run_.empty()) next_.push(run_);
      } else {
        // As in the package: bytes that make no character become one U+FFFD each.
        for (size_t i = 0; i < run_.size(); ++i) next_.push("\uFFFD");
      }
      run_.clear();
    }

    DecoderInput input_;
    DecodeStage& next_;
    std::string run_;
    std::string whole_;
  };
};

// Fuse: all tokens become one.
class FuseDecoder : public TokenDecoder {
 public:
  std::unique_ptr<DecodeStage> start(DecoderInput, DecodeStage& next) const override {
    return std::make_unique<FuseStage>(next);
  }
  DecoderInput output(DecoderInput) const override { return DecoderInput::kFragments; }

 private:
  class FuseStage : public DecodeStage {
   public:
    explicit FuseStage(DecodeStage& next) : next_(next) {}
    void push(std::string_view text) override { next_.push(text); }
    void finish() override { next_.finish(); }

   private:
    DecodeStage& next_;
  };
};

// Replace: every match of a pattern becomes a fixed content.
class ReplaceDecoder : public TokenDecoder {
 public:
  explicit ReplaceDecoder(const ComponentSpec& spec)
      : pattern_(make_text_pattern(spec)), content_(spec.text("content")) {}
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return make_token_stage(input, next, [this](std::string_view token, size_t) {
      std::vector<Stretch> stretches;
      pattern_->find(token, stretches);
      std::string changed;
      for (const Stretch& s : stretches) {
        changed += s.is_match ? std::string_view(content_) : token.substr(s.begin, s.end - s.begin);
      }
      return changed;
    });
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  std::string content_;
};

class SequenceDecoder : public TokenDecoder {
 public:
  explicit SequenceDecoder(const ComponentSpec& spec)
      : decoders_(make_each(spec.list("decoders"), &make_token_decoder)) {}

  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    // The input of a decoder depends on those before it, so inputs are found from the front.
    std::vector<DecoderInput> inputs;
    for (const auto& decoder : decoders_) {
      inputs.push_back(input);
      input = decoder->output(input);
    }
    std::vector<std::unique_ptr<DecodeStage>> stages;
    // From the last to the first, since each stage needs the one that it feeds.
    for (size_t i = decoders_.size(); i-- > 0;) {
      stages.push_back(decoders_[i]->start(inputs[i], stages.empty() ? next : *stages.back()));
    }
    return std::make_unique<SequenceStage>(std::move(stages), next);
  }
  DecoderInput output(DecoderInput input) const override {
    for (const auto& decoder : decoders_) input = decoder->output(input);
    return input;
  }

 private:
  class SequenceStage : public DecodeStage {
   public:
    // `stages` from last to first, each made for the one before it in this list.
    SequenceStage(std::vector<std::unique_ptr<DecodeStage>> stages, DecodeStage& next)
        : stages_(std::move(stages)), first_(stages_.empty() ? next : *stages_.back()) {}
    void push(std::string_view text) override { first_.push(text); }
    void finish() override { first_.finish(); }

   private:
    std::vector<std::unique_ptr<DecodeStage>> stages_;
    DecodeStage& first_;
  };

  std::vector<std::unique_ptr<const TokenDecoder>> decoders_;
};

// Strip: takes a character off the ends of every token, a limited number of times.
class StripDecoder : public TokenDecoder {
 public:
  explicit StripDecoder(const ComponentSpec& spec)
      : content_(spec.character("content")),
        start_(spec.integer("start")),
        stop_(spec.integer("stop")) {
    XRUN_CHECK(start_ >= 0 && stop_ >= 0, "{}: start and stop must not be negative", spec.where());
  }
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    // With stop > 0 the end of the token matters too, so it must be complete.
    if (input == DecoderInput::kFragments && stop_ == 0) {
      return std::make_unique<FrontStage>(next, content_, start_);
    }
    return make_token_stage(input, next, [this](std::string_view token, size_t) {
      for (int64_t i = 0; i < start_ && token.starts_with(content_); ++i) {
        token.remove_prefix(content_.size());
      }
      for (int64_t i = 0; i < stop_ && token.ends_with(content_); ++i) {
        token.remove_suffix(content_.size());
      }
      return std::string(token);
    });
  }

 private:
  // Fragments of one token: only the first is stripped.
  class FrontStage : public DecodeStage {
   public:
    FrontStage(DecodeStage& next, const std::string& content, int64_t count)
        : next_(next), content_(content), left_(count) {}
    void push(std::string_view text) override {
      for (; left_ > 0 && text.starts_with(content_); --left_) text.remove_prefix(content_.size());
      if (text.empty()) return;
      // Nothing is stripped after the first other character.
      left_ = 0;
      next_.push(text);
    }
    void finish() override { next_.finish(); }

   private:
    DecodeStage& next_;
    const std::string& content_;
    int64_t left_;  // the number of times that the content may still be removed
  };

  std::string content_;
  int64_t start_;
  int64_t stop_;
};

// WordPiece: a token that continues a word loses its prefix; any other one gets a space before it.
class WordPieceDecoder : public TokenDecoder {
 public:
  explicit WordPieceDecoder(const ComponentSpec& spec)
      : prefix_(spec.text("prefix")), cleanup_(spec.boolean("cleanup")) {}
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return make_token_stage(input, next, [this](std::string_view token, size_t index) {
      const bool continues = index > 0 && token.starts_with(prefix_);
      std::string changed(index > 0 && !continues ? " " : "");
      changed += continues ? token.substr(prefix_.size()) : token;
      // Token by token, as in the package.
      return cleanup_ ? without_token_spaces(std::move(changed)) : changed;
    });
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

constexpr ComponentType<TokenDecoder> kDecoders[] = {
    {"BPEDecoder", make_component<TokenDecoder, BpeDecoder>},
    {"ByteFallback", make_component<TokenDecoder, ByteFallbackDecoder>},
    {"ByteLevel", make_byte_level_decoder},
    {"Fuse", make_component<TokenDecoder, FuseDecoder>},
    {"Metaspace", make_metaspace_decoder},
    {"Replace", make_component<TokenDecoder, ReplaceDecoder>},
    {"Sequence", make_component<TokenDecoder, SequenceDecoder>},
    {"Strip", make_component<TokenDecoder, StripDecoder>},
    {"WordPiece", make_component<TokenDecoder, WordPieceDecoder>},
};

}  // namespace

std::unique_ptr<const TokenDecoder> make_token_decoder(const ComponentSpec& spec) {
  return make_from_table<TokenDecoder>(kDecoders, spec);
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  while (!from.empty()) {
    const size_t hit = text.find(from, at);
    if (hit == std::string_view::npos) break;
    out.append(text, at, hit - at).append(to);
    at = hit + from.size();
  }
  return out.append(text.substr(at));
}

}  // namespace xrun
