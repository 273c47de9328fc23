// A resume is refused, field by field, for every change that would alter the training.

#include "core/run/resume.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::resume_test {
namespace {

std::string described(const RunIdentity& before, const RunIdentity& now) {
  return describe_differences(identity_differences(before, now));
}

TEST(RunIdentity, LengthsAreTakenOutOfARecipeAndNothingElse) {
  EXPECT_EQ(without_lengths("steps = 12, epochs=3 }"), "steps = 0, epochs=0 }");
  EXPECT_EQ(without_lengths("steps = n, mysteps = 4, steps_x = 5, epochs == 3"),
            "steps = n, mysteps = 4, steps_x = 5, epochs == 3");
  EXPECT_EQ(without_lengths("steps = 3e4"), "steps = 3e4");
  EXPECT_EQ(without_lengths("steps ="), "steps =");
  EXPECT_EQ(without_lengths("s = 'steps = 3' -- steps = 4"), "s = 'steps = 3' -- steps = 4");
}

TEST(RunIdentity, ALongerRunHasTheSameHashAndNoDifference) {
  EXPECT_EQ(short_hash(toy_identity(1)), short_hash(toy_identity(5)));
  EXPECT_EQ(short_hash(toy_identity()).size(), 8u);
  EXPECT_EQ(described(toy_identity(1), toy_identity(5)), "");
  EXPECT_TRUE(length_differences(toy_identity(1), toy_identity(1)).empty());
  const auto longer = length_differences(toy_identity(1), toy_identity(5));
  ASSERT_EQ(longer.size(), 1u);
  EXPECT_EQ(longer[0].path, "config.epochs");
  // A length that is no setting: run:steps(data, { steps = 40 }).
  RunIdentity before = toy_identity(), now = toy_identity();
  before.recipe_text += "f { steps = 4 }\n";
  now.recipe_text += "f { steps = 40 }\n";
  const auto line = length_differences(before, now);
  ASSERT_EQ(line.size(), 1u);
  EXPECT_EQ(line[0].path, "recipe.lua:5");
  EXPECT_EQ(line[0].now, "`f { steps = 40 }`");
}

TEST(RunIdentity, SettingsThatDoNotAffectTrainingAreFree) {
  RunIdentity before = toy_identity(), now = toy_identity();
  before.config.set("save", parse_json(R"({"every":3})", "save"));
  now.config.set("save", parse_json(R"({"every":5,"keep":1})", "save"));
  before.config.set("valid", parse_json(R"({"every":2,"fraction":0.1})", "valid"));
  now.config.set("valid", parse_json(R"({"every":4,"fraction":0.1})", "valid"));
  before.config.set("export", Json::object());
  now.config.set("export", parse_json(R"({"dtype":"bf16"})", "export"));
  before.config.set("batch", parse_json(R"({"pairs":2})", "batch"));
  now.config.set("batch", parse_json(R"({"pairs":2,"fold_check":5})", "batch"));
  EXPECT_EQ(short_hash(before), short_hash(now));
  EXPECT_EQ(described(before, now), "");
  EXPECT_EQ(describe_differences(free_differences(before, now)),
            "  config.save.every: 3 -> 5\n  config.save.keep: absent -> 1\n"
            "  config.valid.every: 2 -> 4\n  config.export.dtype: absent -> \"bf16\"\n"
            "  config.batch.fold_check: absent -> 5\n");
  now.config.find("valid")->set("fraction", 0.2);
  EXPECT_NE(short_hash(before), short_hash(now));
  EXPECT_EQ(described(before, now), "  config.valid.fraction: 0.1 -> 0.2\n");
}

TEST(RunIdentity, RecipeAndConfigurationEnterTheHash) {
  RunIdentity changed = toy_identity();
  changed.config.set("beta", 0.2);
  EXPECT_NE(short_hash(changed), short_hash(toy_identity()));
  changed = toy_identity();
  changed.recipe_text += "-- more\n";
  EXPECT_NE(short_hash(changed), short_hash(toy_identity()));
}

TEST(RunIdentity, DifferencesNameLineAndField) {
  RunIdentity now = toy_identity(4);
  now.recipe_text = "local cfg = xrun.config {\n  epochs = 4,\n  beta = 0.2,\n}\n";
  now.config = parse_json(R"({"beta":0.2,"data":[{"path":"b.jsonl"}],"epochs":4})", "now");
  now.binary.set("build", "bb");
  RunIdentity before = toy_identity(1);
  before.config.set("data", parse_json(R"([{"path":"a.jsonl"},{"path":"c.jsonl"}])", "before"));
  EXPECT_EQ(described(before, now),
            "  recipe.lua:3: `beta = 0.1,` -> `beta = 0.2,`\n"
            "  config.beta: 0.1 -> 0.2\n"
            "  config.data.1.path: \"a.jsonl\" -> \"b.jsonl\"\n"
            "  config.data.2: {\"path\":\"c.jsonl\"} -> absent\n"
            "  binary.build: \"aa\" -> \"bb\"\n");
}

TEST(RunIdentity, ALineThatOnlyOneRecipeHasIsShownAsAbsent) {
  RunIdentity now = toy_identity();
  now.recipe_text += "print(1)\n";
  EXPECT_EQ(described(toy_identity(), now), "  recipe.lua:5: absent -> `print(1)`\n");
}

TEST(Difference, LongValuesAreCutAroundTheirDifference) {
  const std::string same(100, 'x');
  const auto differences = find_differences(Json(same + "one"), Json(same + "two"), "k");
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_TRUE(differences[0].before.starts_with("...xxx")) << differences[0].before;
  EXPECT_TRUE(differences[0].before.ends_with("one\"")) << differences[0].before;
  EXPECT_TRUE(differences[0].now.ends_with("two\"")) << differences[0].now;
  EXPECT_LE(differences[0].now.size(), 66u);
}

TEST(Difference, CutsLongValuesBetweenCharacters) {
  const Json before("a"), now(std::string(58, 'x') + "üü");
  const auto differences = find_differences(before, now, "k");
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].now, "\"" + std::string(58, 'x') + "...");
}

TEST(Difference, KeyOrderDoesNotMatter) {
  EXPECT_TRUE(find_differences(parse_json(R"({"a":1,"b":[2]})", "a"),
                               parse_json(R"({"b":[2],"a":1.0})", "b"), "")
                  .empty());
}

// A run in `dir`, resumed if it exists.
std::unique_ptr<Run> open_run(const std::filesystem::path& dir, bool force = false) {
  RunDirOptions options{dir, true, force};
  SavedObjects saved{{"weights", std::make_shared<ToyWeights>()}};
  return std::make_unique<Run>(RunDir::open(toy_identity(), options), RunSettings{}, saved);
}

void loop(Run& run, int64_t steps) {
  run.begin_phase({steps, Json::object()}, Json::object());
  while (run.begin_body(Json::object())) run.mark_updated();
}

TEST(RunResume, AnEvaluationBetweenLoopsComesBackWhileReplaying) {
  const ScratchFolder folder;
  const MetricList first = {{"valid/loss", 0.25}}, second = {{"valid/loss", std::nan("")}};
  {
    const auto run = open_run(folder / "run");
    run->remember("evaluate", first);
    loop(*run, 2);
    run->remember("evaluate b", second);
    loop(*run, 2);
    run->remember("evaluate", first);
    run->finish(Json::object());
  }
  RunDirOptions options{folder / "run", true, false};
  xrun::Run run(RunDir::open(toy_identity(2), options), {},
                {{"weights", std::make_shared<ToyWeights>()}});
  ASSERT_TRUE(run.replaying());
  EXPECT_EQ(run.recall("evaluate"), first);
  loop(run, 2);
  ASSERT_TRUE(run.replaying());
  const MetricList back = run.recall("evaluate b");
  ASSERT_EQ(back.size(), 1u);
  EXPECT_TRUE(std::isnan(back[0].second));
  EXPECT_TRUE(run.recall("another").empty());
  loop(run, 3);
  EXPECT_FALSE(run.replaying()) << "what follows the checkpoint is measured again";
}

TEST(RunResume, AChangedInputIsRefusedWithItsField) {
  const ScratchFolder folder;
  const Json before = parse_json(R"({"digest":"aa","keys":[{"rows":3}]})", "input");
  const Json now = parse_json(R"({"digest":"bb","keys":[{"rows":4}]})", "input");
  {
    const auto run = open_run(folder / "run");
    run->check_input("data", "2", "the data set v.jsonl", before);
    run->check_input("data", "2", "the data set v.jsonl", now);  // not resumed: the last call wins
    run->check_input("data", "2", "the data set v.jsonl", before);
    loop(*run, 1);
    EXPECT_TRUE(run->save_after_error(Json()).filename() == "step_0000001");
  }
  {
    const auto run = open_run(folder / "run");
    run->check_input("data", "2", "the data set v.jsonl", before);
    run->check_input("data", "3", "a new one", now);
    EXPECT_EQ(
        message_of<Error>([&] { run->check_input("data", "2", "the data set v.jsonl", now); }),
        (folder / "run").string() +
            ": cannot resume: the data set v.jsonl has changed since the run began:\n"
            "  data.1.rows: 3 -> 4\n"
            "to resume with these changes, add --force; to start a new run, choose another folder "
            "with --run DIR");
  }
  const auto run = open_run(folder / "run", true);
  run->check_input("data", "2", "the data set v.jsonl", now);
  EXPECT_EQ(run->dir().notices().size(), 1u);
}

TEST(InputDifference, NamesMissingFieldsAndDifferentNumbersOfSources) {
  const auto input = [](const char* digest, const char* keys) {
    return Json(Json::Object{{"digest", digest}, {"keys", parse_json(keys, "")}});
  };
  const Json from = input("aa", R"([{"a":1,"b":2,"c":[1]}])");
  EXPECT_EQ(
      describe_differences(input_differences(from, input("bb", R"([{"b":2,"a":2,"d":null}])"))),
      "  data.1.a: 1 -> 2\n  data.1.c: [1] -> absent\n  data.1.d: absent -> null\n");
  EXPECT_EQ(describe_differences(input_differences(from, input("bb", "[]"))),
            "  data.1: {\"a\":1,\"b\":2,\"c\":[1]} -> absent\n");
  // The size of a file is enough; its digest shows only if the size is the same.
  const auto file = [&](const char* digest, const char* values) {
    return input(digest,
                 (std::string(R"([{"files":[{"name":"a","bytes":)") + values + "}]}]").c_str());
  };
  const Json nine = file("aa", R"(9,"xxh3":"7e")");
  EXPECT_EQ(describe_differences(input_differences(nine, file("bb", R"(8,"xxh3":"c1")"))),
            "  data.1.files.1.bytes: 9 -> 8\n");
  EXPECT_EQ(describe_differences(input_differences(nine, file("bb", R"(9,"xxh3":"c1")"))),
            "  data.1.files.1.xxh3: \"7e\" -> \"c1\"\n");
  // A run that was saved before there were keys.
  const Json old(Json::Object{{"digest", "aa"}});
  EXPECT_EQ(describe_differences(input_differences(old, input("bb", "[]"))),
            "  digest: \"aa\" -> \"bb\"\n");
}

TEST(RunResume, OtherDataIsRefusedFieldByFieldBeforeAnythingIsCut) {
  const ScratchFolder folder;
  ToyLoop four;
  four.phases = {4};
  toy_run(folder / "run", four);
  const std::string before = text_of(folder / "run/metrics.jsonl");
  auto weights = std::make_shared<ToyWeights>();
  RunDirOptions options{folder / "run", true, false};
  xrun::Run run(RunDir::open(toy_identity(2), options), {}, {{"weights", weights}});
  const Json other = parse_json(R"({"key":"d2","tokenizer":"t"})", "data");
  EXPECT_EQ(
      message_of<Error>([&] {
        run.begin_phase({8, other}, Json());
      }),
      (folder / "run").string() +
          ": cannot resume: the data of loop 1 has changed since it was trained on:\n"
          "  data.key: \"d1\" -> \"d2\"\n  data.tokenizer: absent -> \"t\"\n"
          "to resume with these changes, add --force; to start a new run, choose another folder "
          "with --run DIR");
  EXPECT_EQ(text_of(folder / "run/metrics.jsonl"), before);
}

TEST(RunResume, ADamagedPositionNamesItsFile) {
  const ScratchFolder folder;
  {
    const auto run = open_run(folder / "run");
    loop(*run, 1);
    run->save_after_error(Json());
  }
  const auto dir = folder / "run/checkpoints/step_0000001";
  Json manifest = read_json((dir / "manifest.json").string());
  put_text(dir / "run.json", "{}\n");
  manifest.find("files")->find("run.json")->set("bytes", 3);
  manifest.find("files")->find("run.json")->set("xxh3", hash_hex("{}\n"));
  put_text(dir / "manifest.json", dump_json(manifest));
  EXPECT_EQ(message_of<Error>([&] { open_run(folder / "run"); }),
            (dir / "run.json").string() + ": has no key \"phases\"; the checkpoint is damaged");
}

}  // namespace
}  // namespace xrun::resume_test
