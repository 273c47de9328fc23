// Loads any bytes as tokenizer.json: an Error, or a working tokenizer whose parts agree with the
// whole.

#include "core/base/error.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/fuzz/fuzz_target.h"
#include "tools/fuzz/tokenizer_seams.h"

namespace xrun {

void fuzz_tokenizer_json(std::string_view input) {
  const std::string folder = fuzz_file("tokenizer.json", input);
  try {
    const auto tokenizer = Tokenizer::load(folder);
    const std::string words = "The zz ab\xD1\x8F cd.\nline <s> a b\n\xE4\xB8\xAD  ef </s> g ";
    const std::string text = "The caf\u00e9 <s> 12 zz\n\n ab\xFF  \u4e2d\u6587 </s>";
    for (const bool special : {false, true}) {
      EncodeOptions options;
      options.all_special = options.add_post_processor = special;
      const Encoding encoding = tokenizer->encode(text, options);
      fuzz_check(encoding.ids.size() == encoding.offsets.size(), "ids and offsets differ");
      for (const ByteRange& range : encoding.offsets) {
        fuzz_check(range.begin <= range.end && range.end <= text.size(),
                   "an offset beyond the text");
      }
      for (const int32_t id : encoding.ids) {
        fuzz_check(id >= 0 && id < tokenizer->vocab_size(), "an id beyond the vocabulary");
      }
      tokenizer->decode(encoding.ids, special);
      check_seams(*tokenizer, words, options, 8);
    }
    tokenizer->leading_bos();
  } catch (const Error&) {
  }
}

}  // namespace xrun
