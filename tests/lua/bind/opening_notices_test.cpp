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

}  // namespace xrun::opening_notices_test
