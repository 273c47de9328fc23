// Encodes any bytes as text: offsets are in the text, parts give the same tokens as the whole, and
// byte-level vocabularies decode to the text. Some inputs repeat the text to exercise long texts.

#include <array>
#include <memory>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/fuzz/fuzz_target.h"
#include "tools/fuzz/tokenizer_seams.h"

namespace xrun {

namespace {

struct Subject {
  const char* folder;    // below tests/data
  bool gives_text_back;  // no normalizer, and no added token that takes adjacent spaces
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;
};

Subject& subject_of(char letter) {
  static std::array<Subject, 6> subjects = {{{"tiny_tokenizer", true},
                                             {"tokenizers/llama2", false},
                                             {"tokenizers/llama3", true},
                                             {"tokenizers/metaspace", false},
                                             {"tokenizers/regexes", false},
                                             {"tokenizers/smol", false}}};
  Subject& subject = subjects[static_cast<unsigned char>(letter) % subjects.size()];
  if (!subject.tokenizer) {
    subject.tokenizer =
        Tokenizer::load(std::string(XRUN_SOURCE_DIR "/tests/data/") + subject.folder);
  }
  return subject;
}

void check_offsets(const Encoding& encoding, size_t bytes) {
  fuzz_check(encoding.ids.size() == encoding.offsets.size(), "ids and offsets differ");
  for (const ByteRange& range : encoding.offsets) {
    fuzz_check(range.begin <= range.end && range.end <= bytes, "an offset beyond the text");
  }
}

constexpr size_t kLongPart = 2048;  // bytes; longer parts leave no time for other inputs

// Returns the text repeated to a quarter more than a part.
std::string repeated(std::string_view text) {
  std::string out;
  while (out.size() < kLongPart + kLongPart / 4) out += text;
  return out;
}

}  // namespace

void fuzz_tokenizer_bytes(std::string_view input) {
  if (input.empty()) return;
  const Subject& subject = subject_of(input[0]);
  const std::string_view text = input.substr(1);
  try {
    const Encoding plain = subject.tokenizer->encode(text);
    check_offsets(plain, text.size());
    const std::string back = subject.tokenizer->decode(plain.ids);
    if (subject.gives_text_back) fuzz_check(back == repair_utf8(text), "other text comes back");
    EncodeOptions options;
    options.all_special = options.add_post_processor = true;
    check_offsets(subject.tokenizer->encode(text, options), text.size());
    const uint32_t half = static_cast<uint32_t>(text.size() / 2);
    const ByteRange first_half[] = {{0, half}};
    check_seams(*subject.tokenizer, text, options, 16);
    const bool long_one = static_cast<unsigned char>(input[0]) >= 250 && !text.empty();
    if (long_one) check_seams(*subject.tokenizer, repeated(text), options, kLongPart);
    options = {};
    options.special_ok = first_half;
    check_offsets(subject.tokenizer->encode(text, options), text.size());
  } catch (const Error&) {
  }
}

}  // namespace xrun
