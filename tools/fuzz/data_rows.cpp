// Reads any bytes as a data file: an Error, or the same rows however the file is cut into blocks
// and wherever reading continues. Each row is encoded as every kind: a refusal, or tokens that a
// cache can hold. The first byte chooses format and compression.

#include <vector>

#include "core/base/error.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/row_parse.h"
#include "core/data/rows/row_splitter.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

constexpr const char* kNames[] = {"rows.jsonl",     "rows.json",     "rows.txt",
                                  "rows.jsonl.gz",  "rows.json.gz",  "rows.txt.gz",
                                  "rows.jsonl.zst", "rows.json.zst", "rows.txt.zst"};

class Encoders {
 public:
  Encoders() : tokenizer_(Tokenizer::load(XRUN_SOURCE_DIR "/tests/data/tiny_tokenizer")) {
    RowEncoding encoding;
    encoding.tokenizer = tokenizer_.get();
    encoding.chat_template = resolve_template(*tokenizer_, "chatml").chat_template;
    encoding.settings.keep = {"score"};
    encoding.settings.fields = {{"weight", "share"}};
    for (int kind = 0; kind <= static_cast<int>(RowKind::kFeedback); ++kind) {
      encoding.kind = RowKind{kind};
      encoders_.push_back(make_row_encoder(encoding));
    }
  }

  void encode(const Json& row) const {
    for (const auto& encoder : encoders_) {
      EncodedRow out;
      try {
        encoder->encode_value(row, "rows:1", out);
        encoder->law_sample(row);
      } catch (const Error&) {
        continue;
      }
      fuzz_check(out.extra.size() == 1 && out.weight >= 0, "a row without its extras");
      for (const TokenStream& stream : out.streams) check(stream);
    }
  }

 private:
  void check(const TokenStream& stream) const {
    fuzz_check(stream.trained.size() == stream.ids.size(), "a mask of another length");
    fuzz_check(stream.weights.empty() || stream.weights.size() == stream.ids.size(),
               "weights of another length");
    fuzz_check(stream.trained.empty() || stream.trained[0] == 0, "the first token is trained");
    for (const int32_t id : stream.ids) {
      fuzz_check(id >= 0 && id < tokenizer_->vocab_size(), "an id beyond the vocabulary");
    }
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::unique_ptr<RowEncoder>> encoders_;
};

void encode_row(const RawRow& raw) {
  static const Encoders encoders;
  Json value;
  int64_t repairs = 0;
  try {
    value = parse_row(raw, "rows:1", repairs);
  } catch (const Error&) {
    return;
  }
  encoders.encode(value);
}

struct FuzzRow {
  std::string text;
  int64_t line;
  ContentCursor after;
};

struct ReadRows {
  std::vector<FuzzRow> rows;
  std::string error;  // that ended them
};

ReadRows read_rows(const std::string& path, size_t target, const ContentCursor& from = {},
                   bool encode = false) {
  ReadRows result;
  try {
    const auto splitter = RowSplitter::open(path, "rows", from);
    RowBlock block;
    while (splitter->next(block, target)) {
      for (size_t r = 0; r < block.rows.size(); ++r) {
        const RowBlock::RowExtent& row = block.rows[r];
        fuzz_check(row.begin <= row.end && row.end <= block.bytes(), "a row beyond its block");
        result.rows.push_back({std::string(block.text(r)), row.line, row.after});
        if (encode) encode_row({block.text(r), splitter->form(), {0, row.line}});
      }
    }
  } catch (const Error& error) {
    result.error = error.what();
  }
  return result;
}

// Checks that a reading gives the rows of `whole` after the first `skipped`. The size of blocks
// decides how much of a damaged compressed file is read, so its error may come after other rows.
void check_same(const ReadRows& got, const ReadRows& whole, size_t skipped, bool compressed) {
  fuzz_check(got.error.empty() == whole.error.empty(), "only one of two readings fails");
  if (compressed && !whole.error.empty()) return;
  fuzz_check(got.rows.size() + skipped == whole.rows.size(), "the number of rows differs");
  for (size_t r = 0; r < got.rows.size(); ++r) {
    fuzz_check(got.rows[r].text == whole.rows[r + skipped].text, "a row differs");
    fuzz_check(got.rows[r].line == whole.rows[r + skipped].line, "the line of a row differs");
  }
}

}  // namespace

void fuzz_data_rows(std::string_view input) {
  if (input.empty()) return;
  const size_t format = static_cast<unsigned char>(input[0]) % std::size(kNames);
  const std::string path = fuzz_file(kNames[format], input.substr(1)) + "/" + kNames[format];
  const bool compressed = format >= 3;
  const ReadRows whole = read_rows(path, size_t{1} << 16, {}, true);
  check_same(read_rows(path, 4), whole, 0, compressed);  // a byte order mark fits
  check_same(read_rows(path, 23), whole, 0, compressed);
  if (whole.rows.empty()) return;
  // `after` is the position after its row, where reading continues with the next one.
  const size_t half = whole.rows.size() / 2;
  check_same(read_rows(path, 64, whole.rows[half].after), whole, half + 1, compressed);
}

}  // namespace xrun
