// The origin of a value: recipe line, --set or default.

#include "core/config/config_where.h"

#include <gtest/gtest.h>

#include "core/config/config_base.h"
#include "tests/scratch_folder.h"

namespace xrun::config_where_test {
namespace {

class Where : public testing::Test {
 protected:
  Where() {
    folder_.write("base.lua",
                  "local cfg = xrun.config {\n  optim = { lr = 1e-3, warmup = 0.1 },\n}\n");
    text_ = "local cfg = xrun.config {\n  extends = 'base.lua',\n  optim = { lr = 1e-4 },\n}\n";
    file_ = folder_.write("a.lua", text_);
  }
  std::string where(const std::string& key, const std::vector<std::string>& sets = {}) {
    std::string text = where_text(scan_with_bases(file_, text_), sets, key);
    const std::string folder = folder_.path().string() + "/";
    for (size_t at; (at = text.find(folder)) != std::string::npos;) text.erase(at, folder.size());
    return text;
  }

  ScratchFolder folder_;
  std::string text_, file_;
};

}  // namespace

TEST_F(Where, AValueHasItsLineAndWhatItReplaces) {
  EXPECT_EQ(where("optim.lr"),
            "optim.lr = 0.0001  a.lua:3\n    3 | optim = { lr = 1e-4 },\n"
            "    replaces 0.001  base.lua:2\n");
  EXPECT_EQ(where("optim.warmup"),
            "optim.warmup = 0.1  base.lua:2\n    2 | optim = { lr = 1e-3, warmup = 0.1 },\n");
}

TEST_F(Where, SetReplacesTheFilesValue) {
  EXPECT_EQ(where("optim.lr", {"optim.lr=1"}),
            "optim.lr = 1  --set\n    replaces 0.0001  a.lua:3\n    replaces 0.001  base.lua:2\n");
}

TEST_F(Where, ADefaultHasItsDoc) {
  EXPECT_EQ(where("optim.clip"),
            "optim.clip = 1  default\n    The largest norm of the gradient; 0 is off.\n");
}

TEST_F(Where, AListThatSetChangesInPartHasItsOrigin) {
  EXPECT_EQ(where("optim.betas", {"optim.betas.2=0.95"}),
            "optim.betas = [0.9,0.95]  --set\n    replaces [0.9,0.999]  default\n");
  EXPECT_TRUE(
      where("optim.betas.1", {"optim.betas.2=0.95"}).starts_with("optim.betas.1 = 0.9  default"));
  EXPECT_TRUE(where("optim.betas.1").starts_with("optim.betas.1 = 0.9  default"));
}

TEST_F(Where, AnElementHasOneSpelling) {
  for (const char* key : {"optim.betas.01", "optim.betas.1x", "optim.betas.", "optim."}) {
    EXPECT_TRUE(error_of([&] {
                  where(key);
                }).find(std::string(": the config has no `") + key + "`") != std::string::npos)
        << key;
  }
}

TEST_F(Where, ATableListsItsValues) {
  const std::string text = where("optim");
  for (const char* part :
       {"optim.lr = 0.0001", "optim.warmup = 0.1", "optim.betas = [0.9,0.999]"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST_F(Where, AMistypedKeyNamesTheNearest) {
  EXPECT_EQ(error_of([&] { where("optim.lrr"); }),
            file_ + ": the config has no `optim.lrr`; did you mean `optim.lr`?");
}

}  // namespace xrun::config_where_test
