// An export of a golden folder has the names, shapes and values that transformers wrote.

#include "core/model/weights/export.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/model/model.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/model/load_model.h"
#include "tests/golden_models.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::export_test {

namespace {

class Export : public testing::TestWithParam<std::string> {
 protected:
  // Exports an unchanged golden folder.
  SafetensorsFolder exported(const std::filesystem::path& source) const {
    export_model(load_model(source, at::kFloat, true)->exported(), source, out_);
    return SafetensorsFolder(out_);
  }
  static std::filesystem::path golden(const std::string& name) {
    return std::filesystem::path(source_path("tests/golden/models")) / name;
  }

  const ScratchFolder scratch_;
  const std::filesystem::path out_ = scratch_ / "out";
};

using ExportPrefix = Export;

INSTANTIATE_TEST_SUITE_P(Family, Export,
                         testing::ValuesIn(golden_models({"untied", "llama3_rope",
                                                          "linear_rope_bias", "qwen2", "yarn",
                                                          "dynamic", "longrope"})),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Family, ExportPrefix, testing::Values("gpt2_scaled"));

}  // namespace

TEST_P(Export, AnExportHasTheTensorsOfItsSource) {
  const SafetensorsFolder want(golden(GetParam())), got = exported(golden(GetParam()));
  EXPECT_EQ(got.names(), want.names());
  for (const std::string& name : want.names()) {
    EXPECT_TRUE(got.read(name).equal(want.read(name))) << name;
  }
}

TEST_P(ExportPrefix, AnExportAddsThePrefixThatItsSourceOmits) {
  const SafetensorsFolder want(golden(GetParam())), got = exported(golden(GetParam()));
  EXPECT_EQ(got.names().size() + 2, want.names().size());  // all but the masks of its two layers
  constexpr std::string_view kPrefix = "transformer.";
  for (const std::string& name : got.names()) {
    ASSERT_TRUE(name.starts_with(kPrefix)) << name;
    EXPECT_TRUE(got.read(name).equal(want.read(name.substr(kPrefix.size())))) << name;
  }
}

TEST(ExportTemplate, ReplacesTheOneInTokenizerConfig) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("xrun_template_{}", ::getpid());
  std::filesystem::remove_all(root);
  make_dirs(root);
  const std::filesystem::path golden = source_path("tests/golden/models/tied_gqa");
  std::filesystem::copy(golden, root / "source", std::filesystem::copy_options::recursive);
  write_file_atomic(
      root / "source/tokenizer_config.json",
      R"({"chat_template":"old","model_max_length":1000000000000000019884624838656})");
  const auto loaded = load_model(root / "source", at::kFloat, true);
  const auto model = loaded->exported();  // refers to the model's config
  const auto exported = [&](const char* name, const std::string& chat_template) {
    export_model(model, root / "source", root / name, chat_template);
    return read_json((root / name / "tokenizer_config.json").string());
  };
  EXPECT_EQ(exported("new", "new {{ x }}").at("chat_template").as_string(), "new {{ x }}");
  EXPECT_NE(read_file(root / "new/tokenizer_config.json").find("1000000000000000019884624838656"),
            std::string::npos);
  EXPECT_EQ(exported("own", "").at("chat_template").as_string(), "old");
  std::filesystem::remove_all(root);
}

}  // namespace xrun::export_test
