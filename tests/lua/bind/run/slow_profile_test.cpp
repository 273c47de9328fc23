// A line profile costs less than three percent of a step. Steps with and without a profile
// alternate in one process, so that both run under the same load. The bound is on CPU time; wall
// time, which other programs affect, is printed beside it.

#include <ctime>

#include "core/base/process_usage.h"
#include "core/console/terminal/table.h"
#include "lua/prompt/preview.h"
#include "lua/state/line_profile.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::slow_profile_test {
namespace {

struct Seconds {
  double wall;  // of the clock
  double cpu;   // of this process, user and system
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class SlowProfile : public SessionTest {
 protected:
  static constexpr int kWarmSteps = 20;
  static constexpr int kRows = 40;

  // Every step does the same work.
  SlowProfile() {
    const std::string text = read_file("pairs.jsonl");
    std::string rows;
    for (int i = 0; i < kRows; ++i) rows += text.substr(0, text.find('\n') + 1);
    write_file_atomic("pairs.jsonl", rows);
  }

  void open(const std::vector<std::string>& sets) {
    write_file_atomic("test.lua", head() +
                                      "for step, batch in run:steps(train, cfg.batch) do\n"
                                      "  run:log(adamw:step(batch, dpo))\nend\n");
    RecipeOptions options;
    options.recipe = "test.lua";
    options.threads = 1;
    options.sets = sets;
    options.sets.emplace_back("steps=100000");
    session_ = open_preview(std::move(options), console_);
  }

  // One body of the loop, with a profile or without.
  Seconds step(bool profiled) {
    session_->hooks().plan.bodies = 1;
    const double cpu = cpu_seconds();
    const auto began = SteadyClock::now();
    {
      std::optional<LineProfile> profile;
      if (profiled) profile.emplace(session_->state());
      session_->hooks().resume();
    }
    const Seconds taken{seconds_since(began), cpu_seconds() - cpu};
    XRUN_CHECK(session_->pause() != nullptr, "the recipe does not wait for its next body");
    return taken;
  }

  // Prints and returns the median of profiled over plain CPU time.
  double measure(const char* name, int pairs) {
    for (int i = 0; i < kWarmSteps; ++i) step(i % 2 == 1);
    std::vector<double> plain, wall, cpu;
    for (int i = 0; i < pairs; ++i) {
      const Seconds first = step(i % 2 == 1), second = step(i % 2 == 0);
      const Seconds& without = i % 2 == 0 ? first : second;
      const Seconds& with = i % 2 == 0 ? second : first;
      plain.push_back(without.wall);
      wall.push_back(with.wall / without.wall);
      cpu.push_back(with.cpu / without.cpu);
    }
    std::printf("%s: a step %.2f ms; with a profile, of %d pairs:\n", name,
                1e3 * quantile(plain, 0.5), pairs);
    for (const auto& [clock, ratios] : {std::pair{"wall", wall}, std::pair{"CPU ", cpu}}) {
      std::printf("  %s %.4f times, the middle half %.4f to %.4f, all %.3f to %.3f\n", clock,
                  quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75),
                  quantile(ratios, 0), quantile(ratios, 1));
    }
    return quantile(cpu, 0.5);
  }

  std::shared_ptr<Console> console_ =
      std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{});
  std::unique_ptr<Preview> session_;
};

// One layer of width 32 and one pair per step: the cost of the profile is the largest share here.
TEST_F(SlowProfile, AddsLessThanThreePercentToTheSmallestStep) {
  open({"batch.pairs=1"});
  EXPECT_LT(measure("smallest", 1000), 1.03);
}

// The tiny preset: 4 layers of width 256.
TEST_F(SlowProfile, AddsLessThanThreePercentToASmallStep) {
  InitOptions options = init_preset("tiny");
  options.tokenizer = source_path("tests/data/tiny_tokenizer");
  options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
  init_model("small", options);
  open({"model=small", "batch.pairs=2"});
  EXPECT_LT(measure("small", 200), 1.03);
}

}  // namespace
}  // namespace xrun::slow_profile_test
