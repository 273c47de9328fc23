// Times loading a tokenizer and encoding a text line by line on one thread, after checking that the
// tokens decode to the text.
//   tokenizer_bench TOKENIZER_DIR TEXT_FILE
//   tokenizer_bench --serve TOKENIZER_DIR    for tokenizer_peer.py: reads and answers JSON lines
// Times are CPU time of the thread. "cold" is the first pass, with empty caches; the others are
// later passes. The ratio compares with a plain pass that counts a letter in the same bytes.

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  XRUN_CHECK(bool(file), "{}: cannot be opened", path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Checks that the tokens of the first lines decode to the lines.
void check(const Tokenizer& tokenizer, const std::vector<std::string>& lines) {
  for (size_t i = 0; i < std::min<size_t>(lines.size(), 200); ++i) {
    const std::string back = tokenizer.decode(tokenizer.encode(lines[i]).ids);
    XRUN_CHECK(back == lines[i], "the tokens of line {} do not decode to it", i + 1);
  }
}

void bench(const std::string& folder, const std::string& path) {
  const std::vector<std::string> lines = lines_of(path);
  size_t bytes = 0;
  for (const std::string& line : lines) bytes += line.size();

  double load_s = 1e9;
  std::shared_ptr<const Tokenizer> tokenizer;
  for (int i = 0; i < 20; ++i) {
    load_s = std::min(load_s, thread_seconds([&] { tokenizer = Tokenizer::load(folder); }));
  }
  check(*tokenizer, lines);
  tokenizer = Tokenizer::load(folder);  // a new one, with empty caches

  size_t tokens = 0;
  const auto encode_all = [&] {
    tokens = 0;
    for (const std::string& line : lines) tokens += tokenizer->encode(line).ids.size();
  };
  const double cold_s = thread_seconds(encode_all);
  const double mb = double(bytes) / 1e6;
  std::vector<double> mb_per_s, ratio;
  size_t ends = 0;
  for (int i = 0; i < 10; ++i) {
    const double warm_s = thread_seconds(encode_all);
    const double plain_s = thread_seconds([&] {
      for (const std::string& line : lines)
        ends += size_t(std::count(line.begin(), line.end(), 'e'));
    });
    mb_per_s.push_back(mb / warm_s);
    ratio.push_back(warm_s / plain_s);
  }
  // Without a use of the count, the compiler could drop the pass.
  XRUN_CHECK(ends > 0 || bytes == 0, "the plain pass found nothing");
  print_note("{} bytes, {} tokens\n", bytes, tokens);
  print_figure({"tokenizer", mb_per_s, "MB/s", ratio, "times the time of a plain pass"});
  print_figure({"tokenizer, cold", {mb / cold_s}, "MB/s"});
  print_figure({"loading the tokenizer, best of 20", {load_s * 1e3}, "ms"});
}

// Answers requests: {"texts"} sets the documents, {"ids": true} asks for their ids, {"ids": false}
// for the seconds of encoding them.
void serve(const std::string& folder) {
  const auto tokenizer = Tokenizer::load(folder);
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) {
    const Json row = parse_json(line, "<stdin>");
    Json answer = Json::object();
    if (const Json* given = row.find("texts")) {
      texts.clear();
      for (const Json& text : given->as_array()) texts.push_back(text.as_string());
    } else if (row.at("ids").as_bool()) {
      Json all = Json::array();
      for (const std::string& text : texts) {
        Json ids = Json::array();
        for (const int32_t id : tokenizer->encode(text).ids) ids.push_back(int64_t(id));
        all.push_back(std::move(ids));
      }
      answer.set("ids", std::move(all));
    } else {
      size_t tokens = 0;
      answer.set("seconds", thread_seconds([&] {
                   for (const std::string& text : texts)
                     tokens += tokenizer->encode(text).ids.size();
                 }));
      answer.set("tokens", int64_t(tokens));
    }
    fmt::print("{}\n", dump_json(answer));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr,
               "usage: tokenizer_bench TOKENIZER_DIR TEXT_FILE, or --serve TOKENIZER_DIR\n");
    return 2;
  }
  try {
    if (std::string_view(argv[1]) == "--serve") {
      xrun::serve(argv[2]);
    } else {
      xrun::bench(argv[1], argv[2]);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "tokenizer_bench: {}\n", error.what());
    return 1;
  }
}
