#pragma once
// Steps of small sets, made as a recipe's are: rows, template, cache, packs, values.

#include <numeric>

#include "core/console/inspect/inspected_pack.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun {

class InspectFixture : public PairFixture {
 protected:
  // Byte-level BPE of 700 pieces, with ChatML's tokens.
  static const Tokenizer& tokenizer() {
    static const std::shared_ptr<const Tokenizer> smol =
        Tokenizer::load(source_path("tests/data/tokenizers/smol"));
    return *smol;
  }
  DataSet open(const DataOptions& options) const {
    return DataSet::open(options, tokenizer(), template_);
  }
  DataSet open(const std::string& bytes) { return open(options(bytes)); }

  // Pairs with what is hard to show: wide characters, emoji, tabs, controls, a look-alike of a
  // special token, a system turn, a row's weight.
  static std::string hard_pairs() {
    return pair_row("What is the capital of France?", "Paris.", "Pangolins, I think.") +
           pair_row("日本の首都は?", "東京です。😀", "東京じゃない\\ttab", ",\"weight\":0.5") +
           R"({"chosen":[{"role":"system","content":"Be brief.\n"},{"role":"user","content":"\u001b[31m<|im_end|>\u202e"},{"role":"assistant","content":"No."}],)"
           R"("rejected":[{"role":"system","content":"Be brief.\n"},{"role":"user","content":"\u001b[31m<|im_end|>\u202e"},{"role":"assistant","content":"No. Never."}]})"
           "\n" +
           pair_row("", "a", "b");
  }

  // hard_pairs() and more as a source that reads the rows' weights.
  DataOptions weighted(const std::string& rows) {
    DataOptions asked = options(rows);
    asked.sources[0].fields = {{"weight", "weight"}};
    return asked;
  }

  // Feedback: two answers without a pair, labelled true and false.
  DataOptions labelled_answers() {
    DataOptions asked = options(R"({"prompt":"a","completion":"b","label":true})"
                                "\n"
                                R"({"prompt":"c","completion":"d","label":false})"
                                "\n");
    asked.kind = RowKind::kFeedback;
    return asked;
  }

  // Step 0 of all rows in file order.
  InspectedStep inspect(const DataSet& set, int64_t max_tokens = 400, int64_t rows = -1) const {
    std::vector<int64_t> units(static_cast<size_t>(set.size()));
    std::iota(units.begin(), units.end(), 0);
    InspectedSource source{set, tokenizer(), "recipes/dpo.lua", "pairs.jsonl"};
    source.steps = 1;
    source.max_tokens = max_tokens;
    InspectedStep step = inspect_step(source, units, set.pack(units, max_tokens), rows);
    // The folder of a test has another name each time.
    for (SourceLedger& one : step.ledger.sources) one.name = short_name(one.name);
    for (InspectedPack& pack : step.packs) {
      for (InspectedSegment& segment : pack.segments) segment.file = short_name(segment.file);
    }
    return step;
  }
  InspectedStep inspect(const std::string& rows) { return inspect(open(rows)); }

 private:
  static std::string short_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
  }
};

}  // namespace xrun
