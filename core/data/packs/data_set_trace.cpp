// Rows are found by file and line, and recognised by their token ids, since several rows of an
// array may begin on one line. A step of conversations reads a few rows of a file that may have
// gigabytes, so positions of lines are remembered and reading begins near each row.

#include <algorithm>
#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/data/packs/data_set_state.h"
#include "core/data/rows/byte_stream.h"
#include "core/data/rows/line_index.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/row_splitter.h"
#include "core/text/chat/turn_tail.h"

namespace xrun {

namespace {

constexpr uint64_t kMaxShownBytes = uint64_t{256} << 20;  // of one file, read for display
// Bytes read at a time, near the spacing of the index, since most of a block is on other lines.
constexpr size_t kBlockBytes = size_t{1} << 16;

// A row of the cache to be found.
struct Wanted {
  RowTrace* trace;
  std::vector<TokenStream> cached;
};
using WantedByLine = std::multimap<int64_t, Wanted>;

bool begins_with(const std::vector<int32_t>& whole, const std::vector<int32_t>& beginning) {
  // A cut row is the beginning of what its text encodes to.
  return whole.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), whole.begin());
}

// Returns true if the trace may be that of a cached row, stream by stream.
bool is_of(const RowTrace& trace, const std::vector<TokenStream>& cached) {
  if (trace.streams.size() != cached.size()) return false;
  for (size_t s = 0; s < cached.size(); ++s) {
    if (!begins_with(trace.streams[s].ids, cached[s].ids)) return false;
  }
  return true;
}

// Gives a row of the file to the first wanted row with its ids on the line.
void take_row(const RowTrace& trace, int64_t line, WantedByLine& wanted) {
  const auto [begin, end] = wanted.equal_range(line);
  for (auto one = begin; one != end; ++one) {
    // A later match replaces the whole trace, so this stays only if no row of the line matches.
    if (!trace.failure.empty()) one->second.trace->failure = trace.failure;
    if (!is_of(trace, one->second.cached)) continue;
    *one->second.trace = trace;
    // A row of the file serves one wanted row, so equal rows on one line are told apart by order.
    wanted.erase(one);
    return;
  }
}

}  // namespace

// Encodes single rows of one source again.
class DataSet::TraceReader {
 public:
  TraceReader(RowEncoding encoding, const Tokenizer& tokenizer) {
    encoding.tokenizer = &tokenizer;
    encoding.trace = &trace_;
    encoding.settings.max_length = 0;  // a cut must not hide what it removed
    // Rows were accepted with or without their calls and turns; the display must not refuse them.
    encoding.settings.lost_calls = encoding.settings.lost_turns = true;
    encoder_ = make_row_encoder(encoding);
  }

  RowTrace read(const RawRow& row, const std::string& location) {
    trace_ = RowTrace();
    try {
      EncodedRow out;
      encoder_->encode(row, location, out);
    } catch (const Error& error) {
      return {{}, error.what()};
    }
    return std::move(trace_);
  }

  // Reads from the last position in `index` before each wanted row, and adds further positions.
  // Stops after max_bytes of the file.
  void read_file(const std::string& name, int32_t file, uint64_t max_bytes, LineIndex& index,
                 WantedByLine& wanted) {
    // A compressed file is read once, from its beginning.
    const bool seeks = content_name(name) == name;
    std::unique_ptr<RowSplitter> splitter;
    RowBlock block;
    while (!wanted.empty()) {
      const ContentCursor from = seeks ? index.before(wanted.begin()->first) : ContentCursor();
      if (splitter == nullptr || from.offset > block.after.offset) {
        splitter = RowSplitter::open(name, name, from, RowSplitter::Prefix::kSkip);
        block.after = from;
      }
      if (block.after.offset > max_bytes) {
        for (auto& [line, one] : wanted) {
          one.trace->failure =
              "it is more than 256 MB into its file, and no more is read for display";
        }
        return;
      }
      if (!splitter->next(block, kBlockBytes)) return;
      index.add(block.after);
      for (size_t r = 0; r < block.rows.size() && !wanted.empty(); ++r) {
        const int64_t line = block.rows[r].line;
        if (wanted.find(line) == wanted.end()) continue;
        const RawRow row{block.text(r), splitter->form(), {file, line}, block.rows[r].column};
        take_row(read(row, fmt::format("{}:{}", name, line)), line, wanted);
      }
      // No row after the block begins on an earlier line.
      wanted.erase(wanted.begin(), wanted.lower_bound(block.after.lines + 1));
    }
  }

 private:
  RowTrace trace_;
  std::unique_ptr<RowEncoder> encoder_;
};

std::vector<RowTrace> DataSet::trace(const std::vector<int64_t>& rows,
                                     const Tokenizer& tokenizer) const {
  return read_again(rows, tokenizer, kMaxShownBytes);
}

std::vector<RowTrace> DataSet::read_again(const std::vector<int64_t>& rows,
                                          const Tokenizer& tokenizer, uint64_t max_bytes) const {
  std::vector<RowTrace> traces(rows.size());
  if (!uses_template(kind())) return traces;
  // Each file is read once for all of its rows.
  std::map<std::pair<size_t, int32_t>, WantedByLine> files;
  // A step over a small set may have a row twice, but the file has it once.
  std::map<int64_t, size_t> first;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!first.try_emplace(rows[i], i).second) continue;
    const State::SourceRow at = state_->find(rows[i]);
    Wanted wanted{&traces[i], {}};
    for (size_t s = 0; s < at.source.cache->stream_count(); ++s) {
      wanted.cached.push_back(stream(rows[i], s));
    }
    const SourceLine line = at.source.cache->at(at.row);
    // Holds until the row is found.
    traces[i].failure = "it has changed since it was cached";
    files[{at.index, line.file}].emplace(line.line, std::move(wanted));
  }
  for (auto& [file, wanted] : files) {
    const State::MixedSource& source = state_->sources[file.first];
    const std::vector<std::string>& names = source.cache->ledger().files;
    try {
      TraceReader reader(source.encoding, tokenizer);
      const std::string& name = names.at(static_cast<size_t>(file.second));
      reader.read_file(name, file.second, max_bytes, *state_->indexes->of(name), wanted);
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      for (auto& [line, one] : wanted) one.trace->failure = error.what();
    }
  }
  // A row that was asked for twice is read once.
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t found = first.at(rows[i]);
    if (found != i) traces[i] = traces[found];
  }
  return traces;
}

std::vector<RowTrace> DataSet::renderings(const std::vector<int64_t>& rows,
                                          const Tokenizer& tokenizer) const {
  std::vector<RowTrace> traces = read_again(rows, tokenizer, std::numeric_limits<uint64_t>::max());
  for (size_t i = 0; i < rows.size(); ++i) {
    XRUN_CHECK(!traces[i].streams.empty(), "{}: the row cannot be read again: {}",
               location(rows[i]), traces[i].failure);
  }
  return traces;
}

std::vector<Conversation> DataSet::conversations(const std::vector<int64_t>& rows,
                                                 const Tokenizer& tokenizer) const {
  XRUN_CHECK(kind() == RowKind::kPrompts,
             "rows of {} hold answers, so no conversation can continue them; open them with "
             "xrun.prompts",
             row_reader_name(kind()));
  std::vector<Conversation> found;
  const std::vector<RowTrace> traces = renderings(rows, tokenizer);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::string>& inputs = traces[i].streams[0].inputs;
    Conversation& one = found.emplace_back();
    one.kwargs = parse_json(inputs[0], "template arguments");
    for (size_t m = 1; m < inputs.size(); ++m) {
      one.messages.push_back(parse_json(inputs[m], "message"));
    }
    one.chat_template = state_->find(rows[i]).source.encoding.chat_template;
  }
  return found;
}

// Returns 0 for rows beyond those that a ledger lists.
int64_t DataSet::cut_tokens(int64_t row) const {
  const State::SourceRow at = state_->find(row);
  const SourceLine line = at.source.cache->at(at.row);
  const std::vector<CutRow>& cuts = at.source.cache->ledger().cut_at;
  const auto cut =
      std::find_if(cuts.begin(), cuts.end(), [&](const CutRow& one) { return one.at == line; });
  return cut == cuts.end() ? 0 : cut->cut_tokens;
}

}  // namespace xrun
