#pragma once
// The fixture of tests of preference sets: the tokenizer of bytes, ChatML written by hand, and
// files.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/data/packs/data_set.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun {

// ChatML; the answer and its end are generation. The role "refused" does not render.
class HandChatml : public ChatTemplate {
 public:
  explicit HandChatml(bool marks = true) : marks_(marks) {}
  Rendering render(const Json& messages, const Json&) const override {
    Rendering out;
    for (const Json& message : messages.as_array()) {
      const std::string& role = message.at("role").as_string();
      if (role == "refused") throw Error("the template refuses this role");
      const bool answer = marks_ && role == "assistant";
      add(out, "<|im_start|>" + role + "\n", Origin::kTemplate, false);
      const uint32_t begin = static_cast<uint32_t>(out.text.size());
      add(out, message.at("content").as_string(), Origin::kMessage, answer);
      const Json* calls = message.find("tool_calls");
      const bool shown = calls != nullptr && source_.find("tool_calls") != std::string::npos;
      if (shown) add(out, dump_json(*calls), Origin::kMessage, answer);
      add(out, "<|im_end|>", Origin::kTemplate, answer);
      if (answer) out.turns.push_back({begin, static_cast<uint32_t>(out.text.size())});
      add(out, "\n", Origin::kTemplate, false);
    }
    return out;
  }
  bool marks_generation() const override { return marks_; }
  const std::string& source() const override { return source_; }
  std::string name() const override { return "hand"; }
  std::string digest() const override { return hash_hex(source_); }
  void set_source(std::string source) { source_ = std::move(source); }

 private:
  static void add(Rendering& out, const std::string& text, Origin origin, bool generation) {
    if (text.empty()) return;
    const uint32_t begin = static_cast<uint32_t>(out.text.size());
    out.text += text;
    const uint32_t end = static_cast<uint32_t>(out.text.size());
    if (!out.spans.empty() && out.spans.back().origin == origin &&
        out.spans.back().generation == generation) {
      out.spans.back().end = end;
    } else {
      out.spans.push_back({begin, end, origin, generation});
    }
  }

  bool marks_;
  std::string source_ = "hand-written ChatML";
};

constexpr RowOrder kFileOrder{RowOrderKind::kFile};

inline std::string pair_row(const std::string& prompt, const std::string& chosen,
                            const std::string& rejected, const std::string& more = "") {
  return R"({"prompt":")" + prompt + R"(","chosen":")" + chosen + R"(","rejected":")" + rejected +
         "\"" + more + "}\n";
}

class PairFixture : public testing::Test {
 protected:
  static const Tokenizer& tokenizer() {
    static const std::shared_ptr<const Tokenizer> tiny =
        Tokenizer::load(source_path("tests/data/tiny_tokenizer"));
    return *tiny;
  }

  // n pairs "q<i>" -> "yes<i>" over "no"; every third prompt is shared with the row before.
  static std::string numbered_pairs(int n) {
    std::string bytes;
    for (int i = 0; i < n; ++i) {
      const std::string number = std::to_string(i % 3 == 2 ? i - 1 : i);
      bytes +=
          pair_row("q" + number, "yes" + std::to_string(i), std::string(1 + i % 5, 'n'),
                   ",\"score\":" + std::to_string(i) + ",\"tag\":\"t" + std::to_string(i) + "\"");
    }
    return bytes;
  }

  DataOptions options(const std::string& bytes, const std::string& name = "pairs.jsonl") {
    DataOptions options;
    DataSource source;
    source.path = folder_.write(name, bytes);
    source.name = name;
    options.sources.push_back(source);
    options.cache_root = folder_.path() / "cache";
    return options;
  }

  DataSet open(const DataOptions& options) const {
    return DataSet::open(options, tokenizer(), template_);
  }
  DataSet open(const std::string& bytes) { return open(options(bytes)); }

  // The text of the trained tokens of a packed segment.
  static std::string trained_text(const PackedBatch& batch, int32_t segment) {
    std::vector<int32_t> ids;
    for (size_t r = 0; r < batch.rows.hidden.size(); ++r) {
      if (batch.rows.segment[r] == segment) ids.push_back(batch.rows.target[r]);
    }
    return tokenizer().decode(ids);
  }
  static std::string text_of(const std::vector<int32_t>& ids) { return tokenizer().decode(ids); }

  ScratchFolder folder_;
  std::shared_ptr<HandChatml> template_ = std::make_shared<HandChatml>();
};

}  // namespace xrun
