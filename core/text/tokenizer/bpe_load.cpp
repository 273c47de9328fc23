// Reads byte-pair models: the "model" object of a tokenizer.json, or vocab.json and merges.txt.
// Every id, piece and merge is checked; a message names its position.

#include <simdjson.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/tokenizer/bpe.h"

namespace xrun {

namespace {

// Fills a MergeTable. Merges are looked up in blocks with prefetches: each look-up waits for
// memory, since the tables exceed the nearest caches, and those of a block overlap.
class MergeReader {
 public:
  // A merged piece omits the first `prefix` bytes of its right side.
  MergeReader(const Vocabulary& vocabulary, size_t prefix, std::string where)
      : vocabulary_(vocabulary),
        prefix_(prefix),
        where_(std::move(where)),
        table_(size_t(vocabulary.count())) {}  // most pieces are the result of one merge

  // Adds the next merge; the strings must live until finish().
  void add(std::string_view left, std::string_view right) {
    // Hash now and look up when the block is full: its slots arrive meanwhile.
    block_[size_] = {left, right, hash_piece(left), hash_piece(right), -1, -1, -1};
    vocabulary_.prefetch(block_[size_].left_hash);
    vocabulary_.prefetch(block_[size_].right_hash);
    if (++size_ == kBlock) flush();
  }
  BpeMerges finish() {
    flush();
    return {std::move(table_), marks_begin_words_};
  }

 private:
  static constexpr size_t kBlock = 32;
  struct Pair {
    std::string_view left, right;
    uint64_t left_hash, right_hash;
    int32_t left_id, right_id, id;
  };

  int32_t find(std::string_view piece, uint64_t hash, size_t i) const {
    const std::optional<int32_t> id = vocabulary_.find(piece, hash);
    XRUN_CHECK(id.has_value(), "{}[{}]: the piece \"{}\" is not in the vocabulary", where_,
               rank_ + i, piece);
    return *id;
  }

  // Returns the id of left + right; most vocabularies list results in the order of their merges.
  int32_t find_result(const Pair& pair, size_t i) {
    XRUN_CHECK(pair.right.size() >= prefix_,
               "{}[{}]: the piece \"{}\" does not begin with the "
               "continuing_subword_prefix",
               where_, rank_ + i, pair.right);
    const std::string_view right = pair.right.substr(prefix_);
    const size_t size = pair.left.size() + right.size();
    // Guess the id after the previous result, which saves a hash and a look-up.
    if (guess_ < vocabulary_.size()) {
      const std::string_view piece = vocabulary_.piece(guess_);
      if (piece.size() == size && piece.substr(0, pair.left.size()) == pair.left &&
          piece.substr(pair.left.size()) == right) {
        return guess_;
      }
    }
    result_.assign(pair.left).append(right);
    return find(result_, hash_piece(result_), i);
  }

  void flush() {
    constexpr std::string_view kMark = "\u2581";
    // Slot, span, bytes: each is found through the one before, so each pass fetches one of them for
    // the whole block.
    for (size_t i = 0; i < size_; ++i) {
      vocabulary_.prefetch_span(block_[i].left_hash);
      vocabulary_.prefetch_span(block_[i].right_hash);
    }
    for (size_t i = 0; i < size_; ++i) {
      vocabulary_.prefetch_bytes(block_[i].left_hash);
      vocabulary_.prefetch_bytes(block_[i].right_hash);
    }
    for (size_t i = 0; i < size_; ++i) {
      Pair& pair = block_[i];
      pair.left_id = find(pair.left, pair.left_hash, i);
      pair.right_id = find(pair.right, pair.right_hash, i);
      pair.id = find_result(pair, i);
      guess_ = pair.id + 1;
      table_.prefetch(pair.left_id, pair.right_id);
      // This merge crosses the front of a mark, so words may not be cut there.
      if (pair.right.starts_with(kMark) && !pair.left.ends_with(kMark)) marks_begin_words_ = false;
    }
    for (size_t i = 0; i < size_; ++i) {
      table_.set(block_[i].left_id, block_[i].right_id, {rank_++, block_[i].id});
    }
    size_ = 0;
  }

  const Vocabulary& vocabulary_;
  size_t prefix_;
  std::string where_;
  MergeTable table_;
  std::array<Pair, kBlock> block_;
  size_t size_ = 0;
  uint32_t rank_ = 0;
  int32_t guess_ = 0;
  std::string result_;
  bool marks_begin_words_ = true;
};

// Splits "left right". Throws Error unless there is exactly one space.
void add_merge_line(std::string_view line, uint64_t number, const std::string& where,
                    MergeReader& reader) {
  // The first line of merges.txt.
  if (line.starts_with("#version")) return;
  const size_t space = line.find(' ');
  XRUN_CHECK(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos,
             "{}, merge {}: got \"{}\", wanted two pieces with one space between", where, number,
             line);
  reader.add(line.substr(0, space), line.substr(space + 1));
}

// Reads ["left right", ...] or [["left", "right"], ...].
BpeMerges read_merges(simdjson::ondemand::array array, const Vocabulary& vocabulary, size_t prefix,
                      const std::string& where) {
  MergeReader reader(vocabulary, prefix, where);
  uint64_t number = 0;
  for (auto item : array) {
    ++number;
    if (item.type() == simdjson::ondemand::json_type::string) {
      add_merge_line(item.get_string(), number, where, reader);
      continue;
    }
    std::string_view sides[2];
    size_t count = 0;
    for (auto side : item.get_array()) {
      XRUN_CHECK(count < 2, "{}, merge {}: more than two pieces", where, number);
      sides[count++] = side.get_string();
    }
    XRUN_CHECK(count == 2, "{}, merge {}: {} pieces, wanted 2", where, number, count);
    reader.add(sides[0], sides[1]);
  }
  return reader.finish();
}

BpeOptions read_bpe_options(const ModelSource& source) {
  // BPE dropout (Provilkov et al. 2020) would give another segmentation in every epoch.
  const Json dropout = source.option("dropout");
  XRUN_CHECK(dropout.is_null() || (dropout.is_number() && dropout.as_double() == 0),
             "{}.dropout: random merges are not supported; set it to null", source.where);
  BpeOptions options;
  options.unk_token = source.text("unk_token");
  options.prefix = source.text("continuing_subword_prefix");
  options.suffix = source.text("end_of_word_suffix");
  options.fuse_unk = source.flag("fuse_unk");
  options.byte_fallback = source.flag("byte_fallback");
  options.ignore_merges = source.flag("ignore_merges");
  XRUN_CHECK(!options.byte_fallback || (options.prefix.empty() && options.suffix.empty()),
             "{}: byte_fallback with a continuing_subword_prefix or an end_of_word_suffix is not "
             "supported",
             source.where);
  return options;
}

Vocabulary read_vocab_file(const BpeFiles& files) {
  try {
    return read_vocabulary(files.vocab, files.vocab_name);
  } catch (const simdjson::simdjson_error& error) {
    parse_json(files.vocab, files.vocab_name);  // reports line and column if it is not JSON
    throw Error(fmt::format("{}: {}; wanted an object of ids", files.vocab_name, error.what()));
  }
}

BpeMerges read_merge_lines(std::string_view text, const Vocabulary& vocabulary,
                           const std::string& name) {
  // merges.txt has no continuing_subword_prefix.
  MergeReader reader(vocabulary, 0, name);
  uint64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    // An empty line, such as the last one, is not a merge.
    if (!line.empty()) add_merge_line(line, number, name, reader);
    at = end + 1;
  }
  return reader.finish();
}

}  // namespace

std::unique_ptr<const TokenModel> read_bpe(const ModelSource& source) {
  BpeOptions options = read_bpe_options(source);
  Vocabulary vocabulary = read_vocabulary(source.member("vocab"), source.where + ".vocab");
  // A second parser, since the first one is still iterating over the whole file.
  const auto merges = [&, prefix = options.prefix.size()](const Vocabulary& known) {
    simdjson::ondemand::parser parser;
    simdjson::ondemand::document document = parser.iterate(padded(source.member("merges")));
    return read_merges(document.get_array(), known, prefix, source.where + ".merges");
  };
  auto model =
      std::make_unique<Bpe>(std::move(vocabulary), merges, std::move(options), source.maps_bytes);
  model->finish_loading();  // the source's bytes are freed after this
  return model;
}

std::unique_ptr<const TokenModel> make_bpe_model(const BpeFiles& files, bool maps_bytes) {
  const auto merges = [file = files.merges, name = files.merges_name](const Vocabulary& known) {
    return read_merge_lines(file->bytes(), known, name);
  };
  return std::make_unique<Bpe>(read_vocab_file(files), merges, BpeOptions{}, maps_bytes);
}

}  // namespace xrun
