// metrics.jsonl has one object per step, also after a resume or a full disk.

#include "core/run/metrics_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/base/file_fault.h"
#include "tests/scratch_folder.h"

namespace xrun::metrics_log_test {
namespace {

using Values = std::vector<std::pair<std::string, double>>;

TEST(MetricsLog, WritesOneObjectAStepInAFixedOrder) {
  const ScratchFolder folder;
  MetricsLog log(folder.path(), 0);
  log.log(Values{{"valid/loss", 0.5}, {"perf/step_s", 2}});
  log.log(Values{{"mine", 1e-7}, {"train/loss", 0.1}, {"train/accuracy", 1}});
  log.log(Values{{"valid/loss", 0.25}});
  log.write(0);
  log.write(1);
  EXPECT_EQ(text_of(folder / "metrics.jsonl"),
            "{\"step\":0,\"train/loss\":0.1,\"train/accuracy\":1.0,\"valid/loss\":0.25,"
            "\"mine\":1e-07,\"perf/step_s\":2.0}\n{\"step\":1}\n");
}

TEST(MetricsLog, CountsNonFiniteValuesAndWritesNull) {
  const ScratchFolder folder;
  MetricsLog log(folder.path(), 0);
  log.log(Values{{"a", std::nan("")}, {"b", -std::numeric_limits<double>::infinity()}, {"c", 1}});
  log.write(3);
  EXPECT_EQ(text_of(folder / "metrics.jsonl"),
            "{\"step\":3,\"a\":null,\"b\":null,\"c\":1.0,\"nonfinite\":2}\n");
  EXPECT_EQ(log.nonfinite(), (std::map<std::string, int64_t>{{"a", 1}, {"b", 1}}));
}

TEST(MetricsLog, RefusesReservedNames) {
  const ScratchFolder folder;
  MetricsLog log(folder.path(), 0);
  EXPECT_EQ(message_of<Error>([&] {
              log.log(Values{{"step", 1}});
            }),
            "a metric cannot be named \"step\": every line of metrics.jsonl has that key already; "
            "choose another name");
}

TEST(MetricsLog, AResumeCutsLaterStepsAndATornLine) {
  const ScratchFolder folder;
  const std::string kept = "{\"step\":0,\"a\":1.0}\n{\"step\":1,\"a\":1.0}\n";
  const auto path = folder / "metrics.jsonl";
  for (const char* tail : {"{\"step\":2,\"a\":1.0}\n{\"step\":3}\n", "{\"step\":1", "{\"st", "\n",
                           "{\"step\":2,\"a\":1.0}\n{\"step\":3,\"a", ""}) {
    put_text(path, kept + tail);
    MetricsLog log(folder.path(), 2);
    log.log(Values{{"a", 2}});
    log.write(2);
    EXPECT_EQ(text_of(path), kept + "{\"step\":2,\"a\":2.0}\n") << tail;
  }
}

TEST(MetricsLog, CutsNothingIfEveryStepIsEarlier) {
  const ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  put_text(path, "{\"step\":0}\n{\"step\":1}\n");
  EXPECT_EQ(cut_metrics(path, 5), 2);
  EXPECT_EQ(text_of(path), "{\"step\":0}\n{\"step\":1}\n");
  EXPECT_EQ(cut_metrics(folder / "none", 5), 0);
}

TEST(MetricsLog, AResumeReportsStepsWithoutALine) {
  const ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  const auto missing = [&](const char* text, int64_t step) {
    put_text(path, text);
    return missing_metrics(path, step);
  };
  EXPECT_EQ(missing("{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n", 2), "");
  EXPECT_EQ(missing("{\"step\":0}\n{\"step\":1,\"a", 2), "metrics.jsonl has no line for step 1");
  EXPECT_EQ(missing("{\"step\":0}\ngarbage\n{\"step\":2}\n", 3),
            "metrics.jsonl has no line for steps 1 to 2");
  EXPECT_EQ(missing_metrics(folder / "none", 2), "metrics.jsonl has no line for steps 0 to 1");
}

TEST(MetricsLog, AStepMayBeWrittenAgainAfterAFullDisk) {
  const ScratchFolder folder;
  MetricsLog log(folder.path(), 0);
  log.write(0);
  log.log(Values{{"a", 1}});
  set_file_fault("write", 1);
  EXPECT_NE(error_of([&] {
              log.write(1);
            }).find("metrics.jsonl: cannot be written: No space left on device; free some space"),
            std::string::npos);
  set_file_fault("", 0);
  // The file after the disk filled up in the middle of a line.
  put_text(folder / "metrics.jsonl", text_of(folder / "metrics.jsonl") + "{\"step\":1,\"a");
  log.write(1);
  EXPECT_EQ(text_of(folder / "metrics.jsonl"), "{\"step\":0}\n{\"step\":1,\"a\":1.0}\n");
}

TEST(MetricsLog, AStepThatIsWrittenAgainAfterTensorBoardFailedHasOneLine) {
  const ScratchFolder folder;
  MetricsLog log(folder.path(), 0);
  log.log(Values{{"a", NAN}, {"b", 1}});
  set_file_fault("write", 2);  // the line, then the event
  EXPECT_NE(error_of([&] {
              log.write(0);
            }).find("cannot be written: No space left on device; free some space"),
            std::string::npos);
  set_file_fault("", 0);
  log.write(0);
  EXPECT_EQ(text_of(folder / "metrics.jsonl"),
            "{\"step\":0,\"a\":null,\"b\":1.0,\"nonfinite\":1}\n");
  EXPECT_EQ(log.nonfinite().at("a"), 1);
}

}  // namespace
}  // namespace xrun::metrics_log_test
