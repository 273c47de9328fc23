#pragma once
// Decoding token by token; text is returned as soon as it is certain.

#include "core/text/tokenizer/token_decoders.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Concatenated, the results of push() and finish() are Tokenizer::decode() of all ids. Text that
// may still change (an unfinished character, a run of byte tokens) is held back, so that none ends
// inside a character. Not thread-safe; one stream decodes one text.
class DecodeStream {
 public:
  // The tokenizer must outlive the stream; skip_special leaves special tokens out.
  explicit DecodeStream(const Tokenizer& tokenizer, bool skip_special = false);
  ~DecodeStream();
  DecodeStream(const DecodeStream&) = delete;
  DecodeStream& operator=(const DecodeStream&) = delete;

  // Adds the next id; returns the text that became certain, often "". Throws Error as decode()
  // does.
  std::string push(int32_t id);
  // Returns the text that was held back. Nothing may be pushed afterwards.
  std::string finish();

 private:
  friend class Tokenizer;
  class DecodedText : public DecodeStage {
   public:
    void push(std::string_view text) override { all += text; }
    void finish() override {}
    std::string all;
  };
  void take(int32_t id);

  const Tokenizer& tokenizer_;
  bool skip_special_;
  int64_t count_ = 0;  // ids taken
  DecodedText text_;
  std::unique_ptr<DecodeStage> first_;
};

}  // namespace xrun
