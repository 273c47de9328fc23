#include "core/data/packs/loop_note.h"

#include <functional>

#include "core/base/file.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun::loop_note_test {
namespace {

namespace fs = std::filesystem;

class LoopNotes : public PairFixture {
 protected:
  // A set through every setting that a note holds.
  DataOptions asked() {
    DataOptions asked = options(numbered_pairs(40));
    asked.sources[0].keep = {"score"};
    asked.sources[0].fields = {{"weight", "score"}};
    asked.sources[0].weight = 2;
    asked.settings.max_length = 300;
    asked.settings.over_length = OverLength::kCut;
    asked.settings.train_on = TrainOn::kLast;
    asked.settings.train_on_given = true;
    asked.disabled_laws = {"eot_trained"};
    asked.max_bad = 0.5;
    asked.vocab_limit = 1000;
    return asked;
  }

  LoopNote note(const std::string& file) {
    LoopNote note;
    note.files = {{file, hash_hex(read_file(file))}};
    note.absent = {(folder_.path() / "absent").string()};
    note.model = "tiny";
    note.tokenizer = "digest";
    note.steps = 7;
    note.notices = {"template: chatml"};
    note.max_tokens = 512;
    StepPlan plan{4, 3, {RowOrder::Kind::kBlock, 16, 2}, UINT64_MAX};
    note.sources.push_back({"pairs.jsonl", {asked(), "chatml", "2026-01-02"}, plan, "print"});
    note.sources[0].set.parts = {{0.25, SplitBy::kPrompt, false}, {0.5, SplitBy::kRow, true}};
    return note;
  }
};

TEST_F(LoopNotes, ANoteReadsBackAsItWasKept) {
  const std::string file = folder_.write("recipe.lua", "return 1");
  const fs::path root = folder_.path() / "store";
  keep_loop_note(root, "key", note(file));
  const auto found = find_loop_note(root, "key");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->files, note(file).files);
  EXPECT_EQ(found->steps, 7);
  EXPECT_EQ(found->notices, note(file).notices);
  EXPECT_EQ(found->sources.at(0).plan.seed, UINT64_MAX);
  EXPECT_EQ(found->sources[0].plan.order, (RowOrder{RowOrder::Kind::kBlock, 16, 2}));
  EXPECT_EQ(to_json(found->sources[0].set), to_json(note(file).sources[0].set));
  EXPECT_FALSE(find_loop_note(root, "other"));
  EXPECT_TRUE(forget_loop_notes(root));
  EXPECT_FALSE(forget_loop_notes(root));
}

TEST_F(LoopNotes, ANoteHoldsAsLongAsItsFilesDo) {
  const std::string file = folder_.write("recipe.lua", "return 1");
  const fs::path root = folder_.path() / "store";
  keep_loop_note(root, "key", note(file));
  folder_.write("recipe.lua", "return 2");
  EXPECT_FALSE(find_loop_note(root, "key"));
  folder_.write("recipe.lua", "return 1");
  EXPECT_TRUE(find_loop_note(root, "key"));
  folder_.write("absent", "now it is there");
  EXPECT_FALSE(find_loop_note(root, "key"));
}

TEST_F(LoopNotes, ADamagedNoteIsNone) {
  const std::string file = folder_.write("recipe.lua", "return 1");
  const fs::path root = folder_.path() / "store";
  keep_loop_note(root, "key", note(file));
  const fs::path path = root / kLoopNotesFolder / "key.json";
  const std::string whole = read_file(path);
  for (size_t size = 0; size < whole.size(); size += 13) {
    write_file_atomic(path, whole.substr(0, size));
    EXPECT_FALSE(find_loop_note(root, "key")) << size;
  }
  for (const std::string text : {"{}", "[]", "{\"version\":2}", "null", "", "{"}) {
    write_file_atomic(path, hash_hex(text) + "\n" + text);  // under its right hash
    EXPECT_FALSE(find_loop_note(root, "key")) << text;
  }
}

TEST_F(LoopNotes, AChangedNoteIsNone) {
  const std::string file = folder_.write("recipe.lua", "return 1");
  const fs::path root = folder_.path() / "store";
  keep_loop_note(root, "key", note(file));
  const fs::path path = root / kLoopNotesFolder / "key.json";
  std::string text = read_file(path);
  const std::string seed = "\"18446744073709551615\"";
  ASSERT_NE(text.find(seed), std::string::npos);
  text.replace(text.find(seed), seed.size(), "\"7\"");
  write_file_atomic(path, text);
  EXPECT_FALSE(find_loop_note(root, "key"));
}

// Calls `visit` with the value as it is after each edit of one of its leaves.
void for_each_edit(Json& whole, Json& value, const std::vector<Json>& edits,
                   const std::function<void()>& visit) {
  if (value.is_object()) {
    for (auto& [key, part] : value.as_object()) for_each_edit(whole, part, edits, visit);
  } else if (value.is_array() && !value.as_array().empty()) {
    for (Json& part : value.as_array()) for_each_edit(whole, part, edits, visit);
  } else {
    const Json kept = value;
    for (const Json& edit : edits) {
      value = edit;
      visit();
    }
    value = kept;
  }
}

// One field after the other says something else under a right hash: the note is none, or what it
// says is done in the time of a step.
TEST_F(LoopNotes, ANoteEditedByHandNeitherSpinsNorOverflows) {
  const std::string file = folder_.write("recipe.lua", "return 1");
  const fs::path root = folder_.path() / "store", path = root / kLoopNotesFolder / "key.json";
  LoopNote one = note(file);
  one.sources[0].set = {asked(), "auto", "2026-01-02"};
  one.sources[0].set.parts = {{0.25, SplitBy::kPrompt, false}};
  const auto chatml = resolve_template(tokenizer(), "auto").chat_template;
  one.sources[0].fingerprint = DataSet::open(asked(), tokenizer(), chatml).fingerprint();
  one.sources[0].plan.epochs = 0;  // without end
  keep_loop_note(root, "key", one);
  const std::string kept = read_file(path);
  Json whole = parse_json(kept.substr(kept.find('\n') + 1), "note");
  const std::vector<Json> edits = {int64_t{0},
                                   int64_t{1},
                                   int64_t{-1},
                                   INT64_MAX,
                                   INT64_MIN,
                                   int64_t{1} << 40,
                                   int64_t{1} << 31,
                                   1.5,
                                   1e300,
                                   -1e-300,
                                   "/dev/zero",
                                   "",
                                   "-1",
                                   "99999999999999999999",
                                   Json::Array{},
                                   Json::Object{},
                                   Json(),
                                   true};
  int read = 0, drawn = 0;
  for_each_edit(whole, whole, edits, [&] {
    const std::string text = dump_json(whole);
    write_file_atomic(path, hash_hex(text) + "\n" + text);
    const auto found = find_loop_note(root, "key");
    if (!found) return;
    ++read;
    EXPECT_TRUE(found->steps > 0 && found->max_tokens > 0) << text;
    try {
      for (const LoopNote::Source& source : found->sources) {
        const DataSet set = open_noted_set(source.set, tokenizer());
        if (!fits(source, set)) continue;
        for (const int64_t step : {int64_t{0}, found->steps / 2, found->steps - 1}) {
          const auto units = set.step_units(source.plan, step);
          EXPECT_LE(std::ssize(units), 4096) << text;
          set.pack(units, found->max_tokens);
          ++drawn;
        }
      }
    } catch (const std::exception&) {
      return;  // the recipe runs then
    }
  });
  EXPECT_GT(read, 100);
  EXPECT_GT(drawn, 100);
}

TEST_F(LoopNotes, AStepOfMoreUnitsThanTheSetHasIsNotBelieved) {
  LoopNote one = note(folder_.write("recipe.lua", "return 1"));
  const DataSet set = open(numbered_pairs(40));
  one.sources[0].fingerprint = set.fingerprint();
  EXPECT_TRUE(fits(one.sources[0], set));
  one.sources[0].plan.units = 1 << 20;
  EXPECT_FALSE(fits(one.sources[0], set));
}

TEST_F(LoopNotes, ANotedSetIsTheSameSet) {
  DataOptions options = asked();
  const auto chatml = resolve_template(tokenizer(), "auto").chat_template;
  DataSet set = DataSet::open(options, tokenizer(), chatml).split(0.25, SplitBy::kPrompt).first;
  SetNote note{options, "auto", ""};
  note.parts = {{0.25, SplitBy::kPrompt, false}};
  const DataSet again = open_noted_set(read_set_note(to_json(note)), tokenizer());
  EXPECT_EQ(again.fingerprint(), set.fingerprint());
  const StepPlan plan{.units = 5};
  EXPECT_EQ(again.steps_total(plan), set.steps_total(plan));
  EXPECT_EQ(again.step_units(plan, 2), set.step_units(plan, 2));
}

TEST_F(LoopNotes, WhatIsNotCachedIsNotBuilt) {
  SetNote note{options(numbered_pairs(4)), "auto", ""};
  EXPECT_NE(error_of([&] { open_noted_set(note, tokenizer()); }).find("is not cached"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder_.path() / "cache" / "data"));
}

TEST(DependsOnItself, TellsWhatReachesBeyondItsText) {
  for (const char* lua : {"local cfg = xrun.config { template = 'auto' } print(cfg.template)",
                          "run.io = 1", "-- io.open\nlocal s = 'osx'"}) {
    EXPECT_TRUE(depends_on_itself(lua)) << lua;
  }
  for (const char* lua : {"io.open('x')", "local os = os", "_G['i'..'o']", "x['io']",
                          "xrun.tokenizer('d')", "require 'ffi'", "loadstring('x')()"}) {
    EXPECT_FALSE(depends_on_itself(lua)) << lua;
  }
}

}  // namespace
}  // namespace xrun::loop_note_test
