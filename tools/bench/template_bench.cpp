// Times rendering conversations on one thread, from parsed messages to text with its spans.
//   template_bench ROWS.jsonl [FAMILY...]      rows with "messages" or "chosen", maybe "tools"
// The default family is chatml. Its texts are first checked against plain concatenation, which is
// also the baseline of the ratio; those of other families are only timed.
// tools/oracle/template_speed.py measures jinja2 on the same rows.

#include <fmt/core.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/template_families.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

constexpr int kRuns = 9;

struct BenchRow {
  Json messages;
  Json kwargs = Json::object();
};

std::vector<BenchRow> read_rows(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  XRUN_CHECK(bool(file), "{}: cannot be opened", path);
  std::vector<BenchRow> rows;
  for (std::string line; std::getline(file, line);) {
    const Json json = parse_json(line, path);
    BenchRow row;
    const Json* messages = json.find("messages");
    row.messages = messages != nullptr ? *messages : json.at("chosen");
    if (const Json* tools = json.find("tools"); tools != nullptr) row.kwargs.set("tools", *tools);
    rows.push_back(std::move(row));
  }
  XRUN_CHECK(!rows.empty(), "{}: no rows", path);
  return rows;
}

std::string plain_chatml(const Json& messages) {
  std::string text;
  for (const Json& message : messages.as_array()) {
    text += "<|im_start|>";
    text += message.at("role").as_string();
    text += '\n';
    text += message.at("content").as_string();
    text += "<|im_end|>\n";
  }
  return text;
}

std::shared_ptr<const ChatTemplate> family_template(const std::string& family) {
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    if (builtin.name != family) continue;
    return make_jinja_template(std::string(builtin.source), family,
                               {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, "2024-07-26");
  }
  throw Error(fmt::format("no built-in template {}", family));
}

// Returns the rows that render, after checking their texts.
std::vector<BenchRow> checked(const std::vector<BenchRow>& rows,
                              const ChatTemplate& chat_template) {
  std::vector<BenchRow> good;
  for (const BenchRow& row : rows) {
    std::string text;
    try {
      text = chat_template.render(row.messages, row.kwargs).text;
    } catch (const Error&) {
      continue;
    }
    if (chat_template.name() == "chatml") {
      XRUN_CHECK(text == plain_chatml(row.messages),
                 "plain concatenation gives another text than the template:\n{}", text);
    }
    good.push_back(row);
  }
  XRUN_CHECK(!good.empty(), "no row renders under {}", chat_template.name());
  return good;
}

void bench(const std::vector<BenchRow>& all, const std::string& family) {
  const auto chat_template = family_template(family);
  const std::vector<BenchRow> rows = checked(all, *chat_template);
  size_t bytes = 0, plain_bytes = 0, turns = 0;
  for (const BenchRow& row : rows) turns += row.messages.size();
  const Pairs pairs = interleave(
      kRuns,
      [&] {
        bytes = 0;
        for (const BenchRow& row : rows) {
          bytes += chat_template->render(row.messages, row.kwargs).text.size();
        }
      },
      [&] {
        plain_bytes = 0;
        for (const BenchRow& row : rows) {
          if (family == "chatml") plain_bytes += plain_chatml(row.messages).size();
        }
      });
  XRUN_CHECK(family != "chatml" || bytes == plain_bytes, "{} bytes, wanted {}", bytes, plain_bytes);
  const double scale = 1e3 / double(rows.size());
  std::vector<double> us;
  for (double ms : pairs.a_ms) us.push_back(ms * scale);
  print_note("{} of {} rows, {:.1f} turns and {} bytes each\n", rows.size(), all.size(),
             double(turns) / double(rows.size()), bytes / rows.size());
  Figure figure{"template " + family, us, "us a conversation"};
  if (family == "chatml") figure.ratio = pairs.ratio, figure.peer = "times plain concatenation";
  print_figure(figure);
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: template_bench ROWS.jsonl [FAMILY...]\n");
    return 2;
  }
  try {
    const auto rows = xrun::read_rows(argv[1]);
    if (argc == 2) xrun::bench(rows, "chatml");
    for (int i = 2; i < argc; ++i) xrun::bench(rows, argv[i]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "template_bench: {}\n", error.what());
    return 1;
  }
}
