// Notices about inputs and disk space that a run prints before step 0.

#include "core/model/weights/safetensors.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::opening_notices_test {

class OpeningNotices : public SessionTest {
 protected:
  static std::string recipe() {
    return head() +
           "for step, batch in run:steps(train, cfg.batch) do\n"
           "  run:log(adamw:step(batch, dpo))\nend\n";
  }
};

TEST_F(OpeningNotices, AHeadStoredBesideItsTiedEmbeddingIsReported) {
  const std::filesystem::path file = "tiny/model.safetensors";
  std::vector<NamedTensor> tensors;
  const SafetensorsFile old(file);
  for (const SafetensorsEntry& entry : old.entries()) {
    tensors.push_back({entry.name, old.read(entry.name)});
  }
  if (!old.has("lm_head.weight")) {
    tensors.push_back({"lm_head.weight", old.read("model.embed_tokens.weight")});
  }
  Json config = read_json("tiny/config.json");
  config.set("tie_word_embeddings", true);
  write_file_atomic("tiny/config.json", dump_json(config));
  write_safetensors("with_head", tensors);
  std::filesystem::rename("with_head", file);
  ASSERT_EQ(run(recipe(), "a"), "");
  has(output_, "config.json ties the head to the embedding, and the file holds lm_head.weight");
}

// Half of KTO's loss would be missing, and a training of good answers alone looks as if it worked.
TEST_F(OpeningNotices, AnswersOfOneLabelAreReported) {
  const auto feedback = [&](const char* second, const std::string& sequences = "4") {
    write_file_atomic("f.jsonl", std::string(R"({"prompt":"a","completion":"b","label":true})") +
                                     "\n" + R"({"prompt":"c","completion":"d","label":)" + second +
                                     "}\n");
    EXPECT_EQ(run(R"(local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "f.jsonl" } }, template = "chatml",
  optim = { lr = 1e-3 }, batch = { sequences = )" +
                      sequences + R"( }, steps = 1 }
local policy = xrun.policy(cfg.model)
local data   = xrun.feedback(cfg.data, policy, { template = cfg.template })
local adamw  = xrun.adamw(policy, cfg.optim)
local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(data, cfg.batch) do
  adamw:step(batch, function(f) return { sequence = -policy:logprob(f) } end)
end
)",
                  std::string("r_") + second + sequences),
              "");
    return output_;
  };
  has(feedback("true"),
      "warning: f.jsonl: all 2 answers are labelled good: KTO needs both good and bad ones; check "
      "the labels of the data");
  has(output_, "lower the batch to at most 2: --set batch.sequences=2");
  EXPECT_EQ(feedback("false").find("are labelled"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("baseline"), std::string::npos) << output_;
  has(feedback("false", "1"), "a step has one answer, so KTO's baseline z stays 0");
}

}  // namespace xrun::opening_notices_test
