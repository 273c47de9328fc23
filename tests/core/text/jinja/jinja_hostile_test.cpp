// Hostile templates end with an error: no crash, no hang, no exhausted memory or stack.

#include <gtest/gtest.h>

#include <csignal>
#include <ctime>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/philox.h"
#include "core/text/chat/template_families.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_json.h"
#include "tests/core/text/chat/template_fixture.h"
#include "tests/error_of.h"

namespace xrun::jinja_hostile_test {

namespace {

std::string failure(const std::string& source) {
  return error_of([&] { render_text(source); });
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// The error of a rendering with a tenth of the usual budget.
std::string short_failure(const std::string& source) {
  return error_of([&] {
    const jinja::Tree tree = jinja::parse_template(source);
    jinja::Interpreter(tree, std::tm{}, {.steps = jinja::Limits().steps / 10}).render();
  });
}

TEST(JinjaHostile, EndlessWorkIsCutOffSlow) {
  const std::string loops =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  EXPECT_NE(failure(loops).find("line 1: the template does not terminate"), std::string::npos);
  const std::string loop = "{% for a in range(99999) %}";
  for (const std::string& source : {
           loop + "{% set x = range(99999)|list|sort %}{% endfor %}",
           loop + "{% set x = 5000000 in range(99999) %}{% endfor %}",
           "{% set s = 'a' * 1000000 %}" + loop + "{% set x = s.replace('b', 'c') %}{% endfor %}",
           "{% set s = 'é' * 1000000 %}" + loop + "{% set x = s[a] %}{% endfor %}",
           "{% set s = 'é' * 20000 %}" + loop +
               "{% set x = s.strip('a' * 20000 ~ 'é') %}{% endfor %}",
           "{% set s = 'a' * 1000000 %}" + loop + "{% set x = s.split('b' ~ s) %}{% endfor %}",
           "{% set s = 'a b ' * 100000 %}" + loop +
               "{% set x = s.split()|map('upper')|list %}{% endfor %}",
       }) {
    EXPECT_NE(short_failure(source).find("does not terminate"), std::string::npos) << source;
  }
}

TEST(JinjaHostile, LongWorkEndsAtAnInterruption) {
  const std::string loops =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  request_interrupt(SIGTERM);
  EXPECT_EQ(signal_of([&] { render_text(loops); }), SIGTERM);
  EXPECT_EQ(render_text("{% for a in range(1000) %}{% endfor %}a"), "a");
  clear_interrupt();
}

TEST(JinjaHostile, ManyGenerationBlocksCostOnlyTheirContent) {
  const Rendering rendering =
      jinja_of("{% for a in range(99999) %}{% generation %}a{% endgeneration %}{% endfor %}")
          ->render(messages({{"user", "x"}}), {});
  EXPECT_EQ(rendering.turns.size(), 99999u);
  EXPECT_EQ(rendering.spans.size(), 1u);
}

TEST(JinjaHostile, ASliceOfInvalidUtf8StaysInsideTheText) {
  EXPECT_EQ(render_text("{{ 'a\xF4\x94\xF4\xFF'[::-1] }}"),
            "\xFF\xF4\x94\xF4"
            "a");
  EXPECT_EQ(render_text("{{ 'a\xF4\x94\x94\x94z'[::2]|length }}"), "3");
}

TEST(JinjaHostile, AKeyOfSharedPartsIsNotWalkedForever) {
  const std::string message = error_of([] {
    render_text(
        "{% set ns = namespace(s=(1,)) %}{% for a in range(40) %}{% set ns.s = (ns.s, ns.s) %}"
        "{% endfor %}{{ {ns.s: 1}|length }}");
  });
  EXPECT_NE(message.find("a key has more than 100000 items"), std::string::npos) << message;
}

TEST(JinjaHostile, RecursionIsCutOff) {
  EXPECT_NE(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("recursion"),
            std::string::npos);
  EXPECT_NE(failure("{% for x in [[]] recursive %}{{ loop([[]]) }}{% endfor %}").find("recursion"),
            std::string::npos);
  const std::string nested =
      repeated("{% if 1 %}", 100) + "{{ m() }}" + repeated("{% endif %}", 100);
  EXPECT_NE(failure("{% macro m() %}" + nested + "{% endmacro %}{{ m() }}").find("recursion"),
            std::string::npos);
}

TEST(JinjaHostile, DeepSourceIsRefused) {
  for (const std::string& source :
       {"{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
        "{{ " + repeated("-", 100000) + "1 }}", "{{ " + repeated("not ", 100000) + "1 }}",
        "{{ 1" + repeated(" + 1", 100000) + " }}", "{{ a" + repeated(".b", 100000) + " }}",
        "{{ a" + repeated("|list", 100000) + " }}", "{{ " + repeated("[", 100000) + " }}",
        "{{ 1" + repeated(" if 1 else 1", 100000) + " }}", repeated("{% if 1 %}", 100000),
        repeated("{% for x in y %}", 1000), "{{ " + repeated("{1:", 1000) + " }}"}) {
    EXPECT_NE(failure(source), "") << source.substr(0, 30);
  }
}

TEST(JinjaHostile, TextAndListsHaveLimits) {
  EXPECT_NE(failure("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}"
                    "{% set ns.s = ns.s ~ ns.s %}{% endfor %}")
                .find("grows beyond"),
            std::string::npos);
  EXPECT_NE(failure("{{ ('a' * 99999999999)|length }}").find("grows beyond"), std::string::npos);
  EXPECT_NE(failure("{{ ([0] * 99999999999)|length }}").find("grows beyond"), std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
                    "{% set ns.l = ns.l + ns.l %}{% endfor %}")
                .find("grows beyond"),
            std::string::npos);
}

TEST(JinjaHostile, ValuesThatNestForeverAreRefused) {
  EXPECT_NE(failure("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}"
                    "{% set ns.l = [ns.l] %}{% endfor %}")
                .find("nest deeper"),
            std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace(l={}) %}{% for i in range(5000) %}"
                    "{% set ns.l = {'k': ns.l} %}{% endfor %}")
                .find("nest deeper"),
            std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}"
                    "{% set ns.l = [ns.l.count] %}{% endfor %}")
                .find("nest deeper"),
            std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% for x in [ns.l] %}"
                    "{% set ns.l = loop %}{% endfor %}{% endfor %}")
                .find("nest deeper"),
            std::string::npos);
}

TEST(JinjaHostile, DoublingThroughSharedValuesEndsSlow) {
  const std::string doubling =
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}";
  EXPECT_NE(failure(doubling + "{{ ns.l }}"), "");
  EXPECT_NE(failure(doubling + "{{ ns.l|tojson }}"), "");
  EXPECT_NE(failure("{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(100) %}"
                    "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}"
                    "{{ ns.a == ns.b }}"),
            "");
}

TEST(JinjaHostile, CyclesOfNamespacesAndMacrosAreNeitherWalkedNorLeaked) {
  EXPECT_NE(failure("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"), "");
  EXPECT_EQ(
      render_text("{% set ns = namespace() %}{% for i in range(9) %}"
                  "{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}"),
      "8");
}

TEST(JinjaHostile, ArithmeticAtTheEdgesOfIntegersIsAnError) {
  for (const char* expression :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2", "2 ** 64",
        "(-9223372036854775807 - 1) // -1", "-(-9223372036854775807 - 1)", "1 % 0",
        "9223372036854775808", "1|round(-9223372036854775807 - 1)"}) {
    EXPECT_NE(failure(std::string("{{ ") + expression + " }}"), "") << expression;
  }
  EXPECT_EQ(render_text("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_EQ(render_text("{{ 'abc'[9223372036854775807:] }}{{ 'abc'[::9223372036854775807] }}"
                        "{{ 'abc'[-9223372036854775807:1] }}{{ 'abc'[::-9223372036854775807] }}"),
            "aac");
}

// Renders with a small budget and accepts any outcome but a crash.
void try_render(const std::string& source) {
  static const Json kMessages = parse_json(
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": "Größe"},
          {"role": "assistant", "content": "a", "tool_calls": [{"function": {"name": "f",
           "arguments": {"x": [1, 2.5, null]}}}]}, {"role": "tool", "content": "t"}])",
      "t");
  static const Json kTools = parse_json(R"([{"function": {"name": "f", "parameters": {}}}])", "t");
  try {
    const jinja::Tree tree = jinja::parse_template(source);
    const std::tm clock{};
    jinja::Interpreter interpreter(tree, clock, {.steps = 20'000, .depth = 400});
    jinja::RowValues values;
    interpreter.set_variable("messages", values.value(kMessages));
    interpreter.set_variable("tools", values.value(kTools));
    interpreter.set_variable("bos_token", jinja::Value::text("<s>"));
    interpreter.render();
  } catch (const Error&) {
  }
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : seed_(seed) {}
  uint64_t below(uint64_t n) { return philox_u64(seed_, kStreamShuffle, 0, count_++) % n; }

  std::string mutate(std::string text) {
    static const std::string kPieces[] = {"{{",
                                          "}}",
                                          "{%",
                                          "%}",
                                          "{#",
                                          "#}",
                                          "-%}",
                                          "{%-",
                                          "(",
                                          ")",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          "|",
                                          ".",
                                          "'",
                                          "\"",
                                          " if ",
                                          " for x in messages ",
                                          "else",
                                          " endif ",
                                          " endfor ",
                                          " is ",
                                          " not ",
                                          " in ",
                                          "loop",
                                          "messages",
                                          "::-1",
                                          "~",
                                          "*",
                                          "**",
                                          "//",
                                          "9999999999",
                                          "-1",
                                          "0",
                                          "|tojson",
                                          "|list",
                                          "[0]",
                                          " generation ",
                                          " endgeneration ",
                                          " macro m(a, b=a) ",
                                          " endmacro ",
                                          " set x = ",
                                          "namespace()",
                                          "range(99)",
                                          ".split('')",
                                          "\xF0\x9F",
                                          "\x80",
                                          std::string(1, '\0'),
                                          "\\x",
                                          "\r\n"};
    for (uint64_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
      const size_t at = below(text.size());
      const size_t size = below(20);
      switch (below(4)) {
        case 0: text.erase(at, size); break;
        case 1: text.insert(at, kPieces[below(std::size(kPieces))]); break;
        case 2: text.insert(at, text.substr(below(text.size()), size)); break;
        default: text[at] = static_cast<char>(below(256));
      }
    }
    return text;
  }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

TEST(JinjaHostile, MutatedTemplatesNeverCrash) {
  std::vector<std::string> seeds;
  for (const BuiltinTemplate& builtin : builtin_templates()) seeds.emplace_back(builtin.source);
  const Json snippets = read_json((kSourceDir / "tests/golden/jinja_snippets.json").string());
  for (const Json& one : snippets.at("cases").as_array()) {
    seeds.push_back(one.as_array()[0].as_string());
  }
  Mutator mutator(17);
  for (int i = 0; i < 6000; ++i) {
    std::string text = seeds[mutator.below(seeds.size())];
    if (i % 3 == 0) text += seeds[mutator.below(seeds.size())];
    try_render(mutator.mutate(std::move(text)));
  }
}

TEST(JinjaHostile, GarbageNeverCrashes) {
  Mutator mutator(23);
  for (int i = 0; i < 3000; ++i) {
    std::string text = "{{";
    for (uint64_t size = mutator.below(60); size > 0; --size) {
      text += static_cast<char>(mutator.below(256));
    }
    try_render(mutator.mutate(text));
  }
}

TEST(JinjaHostile, ViewsAreNotKeysAsInPython) {
  for (const std::string view : {"keys", "items"}) {
    EXPECT_NE(failure("{% set x = {{'a': 1}." + view + "(): 1} %}").find("unhashable"),
              std::string::npos);
  }
  EXPECT_EQ(failure("{% set x = {{'a': 1}.values(): 1} %}"), "");
}

}  // namespace

}  // namespace xrun::jinja_hostile_test
