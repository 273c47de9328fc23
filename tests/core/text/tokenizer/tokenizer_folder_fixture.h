#pragma once
// Folders of small tokenizers, and their error messages.

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/scratch_folder.h"

namespace xrun {

// Returns a tokenizer.json of the characters a, b, c and their merges.
inline Json small_tokenizer() {
  return parse_json(R"({"version": "1.0", "added_tokens": [], "normalizer": null,
      "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
      "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
        "byte_fallback": false, "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4},
        "merges": ["a b", "ab c"]}})",
                    "small");
}

class TokenizerFolderTest : public testing::Test {
 protected:
  std::shared_ptr<const Tokenizer> load() const { return Tokenizer::load(folder_.path()); }
  // Returns the message of load(), with DIR for the folder's path.
  std::string failure() const {
    return failure_of([&] { load(); });
  }
  template <class Run>
  std::string failure_of(const Run& run) const {
    std::string text = error_of(run);
    const std::string path = folder_.path().string();
    for (size_t at; (at = text.find(path)) != std::string::npos;) {
      text.replace(at, path.size(), "DIR");
    }
    return text;
  }
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  void write(const Json& json) const { write("tokenizer.json", dump_json(json)); }

  ScratchFolder folder_;
};

}  // namespace xrun
