// A policy: the folder that an export writes, and the states that it refuses.

#include "core/train/models/policy.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/model/weights/init_model.h"
#include "core/model/weights/safetensors.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/adamw.h"
#include "core/train/models/reference.h"
#include "core/train/step.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::policy_test {
namespace {

const std::filesystem::path kData = source_path("tests/data");

// Exports a policy over a tokenizer, used with the template of a setting, and returns the folder.
class PolicyExport : public testing::Test {
 protected:
  std::filesystem::path exported(const std::string& setting, const std::string& own_template = "",
                                 const std::string& tool_use = "") {
    const std::filesystem::path tokenizer = folder_.path() / "tokenizer";
    make_dirs(tokenizer);
    write_file_atomic(tokenizer / "tokenizer.json",
                      read_file(kData / "tokenizers/smol/tokenizer.json"));
    if (!own_template.empty()) write_file_atomic(tokenizer / "chat_template.jinja", own_template);
    if (!tool_use.empty()) {
      make_dirs(tokenizer / "additional_chat_templates");
      write_file_atomic(tokenizer / "additional_chat_templates/tool_use.jinja", tool_use);
    }
    InitOptions options;
    options.vocab = 1000;
    options.tokenizer = tokenizer;
    init_model(folder_.path() / "model", options);
    const auto policy = Policy::open(folder_.path() / "model");
    policy->use_template(resolve_template(*policy->tokenizer(), setting).chat_template);
    policy->export_to(folder_.path() / "hf");
    return folder_.path() / "hf";
  }
  static std::string rendered(const std::filesystem::path& dir) {
    const auto tokenizer = Tokenizer::load(dir);
    const Json messages = parse_json(R"([{"role":"user","content":"q"}])", "messages");
    return resolve_template(*tokenizer, "auto", "", /*allow_unmarked=*/true)
        .chat_template->render(messages, Json())
        .text;
  }

  TinyFolder folder_;
};

TEST_F(PolicyExport, CarriesTheTemplateThatWasNamedForATokenizerWithoutOne) {
  const std::filesystem::path dir = exported("chatml");
  EXPECT_EQ(rendered(dir), "<|im_start|>user\nq<|im_end|>\n");
}

TEST_F(PolicyExport, CarriesTheNamedTemplateInPlaceOfTheTokenizersOwn) {
  const std::filesystem::path dir = exported("chatml", "{{ messages[0].content }}");
  EXPECT_EQ(rendered(dir), "<|im_start|>user\nq<|im_end|>\n");
}

TEST_F(PolicyExport, KeepsTheTokenizersTemplateIfAMarkedCopyTrained) {
  // Renders what our marked SmolLM2 template does, without its marks.
  const std::string own =
      "{% for m in messages %}{% if loop.first and m.role != 'system' %}{{ '<|im_start|>system\\n"
      "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\\n' }}"
      "{% endif %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  EXPECT_EQ(read_file(exported("auto", own) / "chat_template.jinja"), own);
}

TEST_F(PolicyExport, CarriesTheNamedTemplatesUnlessAnotherOneTrained) {
  const std::string marked = "{% generation %}x{% endgeneration %}";
  const auto tool_use = [&](const std::string& setting) {
    const std::filesystem::path dir = exported(setting, marked, marked + "tools");
    return path_exists(dir / "additional_chat_templates/tool_use.jinja");
  };
  EXPECT_TRUE(tool_use("auto"));
  std::filesystem::remove_all(folder_.path() / "hf");
  std::filesystem::remove_all(folder_.path() / "model");
  EXPECT_FALSE(tool_use("chatml"));
}

// Names and shapes of the weights of a folder.
std::map<std::string, std::vector<int64_t>> weights_of(const std::filesystem::path& dir) {
  std::map<std::string, std::vector<int64_t>> shapes;
  const SafetensorsFile file(dir / "model.safetensors");
  for (const SafetensorsEntry& entry : file.entries()) shapes[entry.name] = entry.shape;
  return shapes;
}

TEST(Policy, AnExportHasTheKeysOfItsFolder) {
  TinyFolder folder;
  const std::filesystem::path model = folder.model();
  for (const bool lora : {false, true}) {
    PolicyOptions options;
    if (lora) options.lora = AdapterOptions{.rank = 2};
    const auto policy = Policy::open(model, options);
    const auto reference = policy->reference();
    AdamWOptions optim;
    optim.lr = 1e-2;
    AdamW adamw({policy}, optim);
    train_step({{tiny_batch(tiny_pairs(2), 2).get(), dpo(policy, reference, 0.1)}}, &adamw);
    const std::filesystem::path hf = folder.path() / (lora ? "lora" : "full");
    policy->export_to(hf);
    EXPECT_EQ(weights_of(hf), weights_of(model)) << lora;
  }
}

TEST(Policy, AnExportKeepsTheTypeOfTheModelItCameFrom) {
  TinyFolder folder;
  InitOptions init{.hidden = 32, .ffn = 64, .scale = 0.2, .dtype = c10::ScalarType::BFloat16};
  const std::filesystem::path model = folder.path() / "narrow";
  init_model(model, init);
  for (const bool named : {true, false}) {  // named: config.json has the type, else the file alone
    if (!named) {
      std::string config = read_file(model / "config.json");
      config.replace(config.find("torch_dtype"), 11, "unread");
      write_file_atomic(model / "config.json", config);
    }
    for (const bool set : {false, true}) {
      PolicyOptions options;
      if (set) options.export_dtype = c10::ScalarType::Float;
      const auto policy = Policy::open(model, options);
      const auto reference = policy->reference();
      AdamW adamw({policy}, {.lr = 1e-2});
      train_step({{tiny_batch(tiny_pairs(2), 2).get(), dpo(policy, reference, 0.1)}}, &adamw);
      const std::filesystem::path hf =
          folder.path() / fmt::format("hf_{}{}", named ? "named" : "", set ? "set" : "");
      policy->export_to(hf);
      const c10::ScalarType wanted = set ? c10::ScalarType::Float : c10::ScalarType::BFloat16;
      EXPECT_EQ(read_model_config(hf).dtype, wanted);
      const SafetensorsFile file(hf / "model.safetensors");
      for (const Parameter& parameter : policy->parameters()) {
        const at::Tensor got = file.read(parameter.name);
        EXPECT_EQ(got.scalar_type(), wanted) << parameter.name;
        EXPECT_TRUE(got.equal(parameter.master.detach().to(wanted))) << "to nearest even";
      }
    }
  }
}

TEST(Policy, AnExportThatOverflowsFp16IsAnErrorThatNamesTheTensor) {
  TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  policy->model();
  const Parameter& large = policy->parameters()[3];
  large.master.detach().view({-1})[7].fill_(-7e4);
  const std::filesystem::path hf = folder.path() / "hf";
  EXPECT_EQ(message_of<Error>([&] { policy->export_to(hf, c10::ScalarType::Half); }),
            large.name + ": a trained value overflows float16; set export = { dtype = \"fp32\" }");
  EXPECT_FALSE(std::filesystem::exists(hf));
  policy->export_to(hf, c10::ScalarType::BFloat16);
  EXPECT_TRUE(std::filesystem::exists(hf / "model.safetensors"));
}

TEST(Policy, TheSizeOfAnExportFollowsItsType) {
  TinyFolder folder;
  const std::filesystem::path model = folder.path() / "narrow";
  init_model(model, {.hidden = 32, .ffn = 64, .scale = 0.2, .dtype = c10::ScalarType::BFloat16});
  const int64_t narrow = Policy::open(model)->export_bytes();
  const auto file = static_cast<int64_t>(std::filesystem::file_size(model / "model.safetensors"));
  EXPECT_NEAR(static_cast<double>(narrow), static_cast<double>(file), 4096);  // less its header
  PolicyOptions options;
  options.export_dtype = c10::ScalarType::Float;
  EXPECT_EQ(Policy::open(model, options)->export_bytes(), 2 * narrow);
}

TEST(Policy, ASavedWeightOfAnotherShapeIsRefused) {
  TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  policy->model();
  const std::string first = policy->parameters()[0].name;
  EXPECT_EQ(error_of([&] {
              policy->restore([](const std::string&) { return at::ones({3, 2}); }, policy->state());
            }),
            "the saved tensor " + first +
                " has shape [3, 2], wanted [256, 32]: it belongs to another model");
}

TEST(Policy, ARestoredPolicyReadsNoCopyOfTheWeightsBefore) {
  TinyFolder folder;
  const PolicyOptions options{.dtype = c10::ScalarType::BFloat16};
  const auto policy = Policy::open(folder.model(), options);
  const auto fresh = Policy::open(folder.model(), options);
  const auto logprob = [](Policy& of) { return of.logprob(*tiny_batch(tiny_pairs(1), 1)); };
  const at::Tensor before = logprob(*policy);  // makes copies in bf16 at update 0
  fresh->model();
  const Saveable::TensorSource larger = [&](const std::string& name) -> at::Tensor {
    for (const NamedTensor& one : fresh->tensors()) {
      if (one.name == name) return one.tensor.mul(1.5);
    }
    throw Error("no weight " + name);
  };
  policy->restore(larger, policy->state());  // at update 0 again
  fresh->restore(larger, fresh->state());
  EXPECT_TRUE(logprob(*policy).equal(logprob(*fresh)));
  EXPECT_FALSE(logprob(*policy).equal(before));
}

TEST(Policy, ATokenizerWithMoreIdsThanTheEmbeddingIsRefused) {
  TinyFolder folder;
  InitOptions options;
  options.vocab = 100;
  const std::filesystem::path model = folder.path() / "model";
  init_model(model, options);
  std::filesystem::copy_file(kData / "tokenizers/smol/tokenizer.json", model / "tokenizer.json");
  try {
    Policy::open(model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find(model.string() + ": the tokenizer has "), 0u)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("the model's embedding 100 rows"), std::string::npos);
  }
}

TEST(Policy, NeedsAModelFolder) {
  EXPECT_EQ(error_of([] { Policy::open("/nonexistent/model"); }),
            "/nonexistent/model: there is no such model folder");
}

TEST(Policy, LoadsNothingBeforeTheFirstForward) {
  TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  AdamWOptions options;
  options.lr = 1;
  AdamW adamw({policy}, options);
  const auto reference = policy->reference();
  EXPECT_FALSE(policy->loaded());
  policy->logprob(*tiny_batch(tiny_pairs(1), 1));
  EXPECT_TRUE(policy->loaded());
}

TEST(Policy, AMissingTokenizerIsNamedAtFirstUse) {
  TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  EXPECT_EQ(error_of([&] { policy->tokenizer(); }),
            folder.model().string() +
                ": there is no tokenizer in this folder; copy the model's tokenizer.json into it");
}

}  // namespace
}  // namespace xrun::policy_test
