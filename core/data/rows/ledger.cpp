// The invariant of every ledger: rows = kept + the sum of dropped.

#include "core/data/rows/ledger.h"

#include <fmt/core.h>

#include <numeric>

#include "core/base/strings.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr size_t kNotes = 100;        // hostile rows may name any number of columns
constexpr size_t kDetailBytes = 400;  // of one bad row's reason, as stored

struct CountField {
  const char* name;
  int64_t SourceLedger::*field;
};

// The plain counters, in the order in which they are written. Writing and reading share the table,
// so a build that continues loses no counter.
constexpr CountField kCounts[] = {
    {"lines", &SourceLedger::lines},
    {"rows", &SourceLedger::rows},
    {"kept", &SourceLedger::kept},
    {"cut", &SourceLedger::cut},
    {"cut_tokens", &SourceLedger::cut_tokens},
    {"repaired", &SourceLedger::repaired},
    {"repairs", &SourceLedger::repairs},
    {"straddlers", &SourceLedger::straddlers},
    {"tokens", &SourceLedger::tokens},
    {"trained_tokens", &SourceLedger::trained_tokens},
    {"zero_weight", &SourceLedger::zero_weight},
    {"more_notes", &SourceLedger::more_notes},
};

Json line_json(const SourceLine& at) {
  Json value = Json::object();
  value.set("file", at.file);
  value.set("line", at.line);
  return value;
}

SourceLine read_line(const Json& value) {
  return {static_cast<int32_t>(value.at("file").as_int()), value.at("line").as_int()};
}

Json line_list(const std::vector<SourceLine>& lines) {
  Json list = Json::array();
  for (const SourceLine& at : lines) list.push_back(line_json(at));
  return list;
}

std::vector<SourceLine> read_lines(const Json& list) {
  std::vector<SourceLine> lines;
  for (const Json& entry : list.as_array()) lines.push_back(read_line(entry));
  return lines;
}

// Entries with their lines; add(row, entry) sets the other members.
template <class Row, class Add>
Json list_of(const std::vector<Row>& rows, Add add) {
  Json list = Json::array();
  for (const Row& row : rows) {
    Json entry = line_json(row.at);
    add(row, entry);
    list.push_back(std::move(entry));
  }
  return list;
}

Json count_object(const std::map<std::string, int64_t>& counts) {
  Json object = Json::object();
  for (const auto& [name, count] : counts) object.set(name, count);
  return object;
}

std::map<std::string, int64_t> read_counts(const Json& object) {
  std::map<std::string, int64_t> counts;
  for (const Json::Member& member : object.as_object()) {
    counts[member.first] = member.second.as_int();
  }
  return counts;
}

int64_t sum(const std::vector<SourceLedger>& sources, int64_t SourceLedger::*field) {
  int64_t total = 0;
  for (const SourceLedger& source : sources) total += source.*field;
  return total;
}

}  // namespace

bool is_warning(std::string_view note) { return note.starts_with(kLostNote); }

int64_t SourceLedger::dropped_total() const {
  return std::accumulate(dropped.begin(), dropped.end(), int64_t{0},
                         [](int64_t total, const auto& entry) { return total + entry.second; });
}

void SourceLedger::repair(const SourceLine& at, int64_t pieces, bool is_utf8) {
  ++repaired;
  lone_surrogates += is_utf8 ? 1 : 0;
  repairs += pieces;
  // Examples; the counters include all of them.
  std::vector<SourceLine>& lines = is_utf8 ? lone_surrogate_at : repaired_at;
  if (lines.size() < kListedRows) lines.push_back(at);
}

void SourceLedger::cut_row(const CutRow& row, const std::string& before, const std::string& after) {
  ++cut;
  cut_tokens += row.cut_tokens;
  // The first cut row is the example that a message shows.
  if (cut_at.empty()) {
    cut_kept = before;
    cut_lost = after;
  }
  if (cut_at.size() < kListedRows) cut_at.push_back(row);
}

// A row that the recipe's own filter drops is not a bad row.
int64_t SourceLedger::bad_total() const {
  const auto filtered = dropped.find(kFilteredReason);
  return dropped_total() - (filtered == dropped.end() ? 0 : filtered->second);
}

std::string short_detail(const std::string& detail) { return shortened(detail, kDetailBytes); }

void SourceLedger::drop(const SourceLine& at, const std::string& reason, std::string detail) {
  // Every row is counted; only the list of examples is bounded.
  const bool is_first = ++dropped[reason] == 1;
  // A filtered row is as the recipe wants it; listing it would hide the bad ones.
  if (reason == kFilteredReason || (bad.size() >= kListedRows && !is_first)) return;
  bad.push_back({at, reason, short_detail(detail)});
}

void SourceLedger::note(const std::string& text, const SourceLine& at) {
  const auto found = notes.find(text);
  if (found != notes.end()) {
    ++found->second;
  } else if (notes.size() < kNotes) {
    notes.emplace(text, 1);
  } else {
    ++more_notes;
    return;
  }
  // The first rows serve as examples; `notes` counts all.
  std::vector<SourceLine>& lines = noted_at[text];
  if (lines.size() < kNotedRows) lines.push_back(at);
}

std::string SourceLedger::noted_rows(const std::string& note) const {
  const int64_t rows = notes.at(note);
  std::string text = counted(rows, "row");
  const auto lines = noted_at.find(note);
  // The number alone says enough of a note on every row; an older cache has no more.
  if (rows >= kept || lines == noted_at.end()) return text;
  const char* between = ": ";
  for (const SourceLine& at : lines->second) {
    text += between + location(at);
    between = ", ";
  }
  return text + (std::ssize(lines->second) < rows ? ", ..." : "");
}

std::string SourceLedger::location(const SourceLine& at) const {
  // The source's name replaces that of an unknown file.
  const bool known = at.file >= 0 && static_cast<size_t>(at.file) < files.size();
  return fmt::format("{}:{}", known ? files[static_cast<size_t>(at.file)] : name, at.line);
}

Json SourceLedger::to_json() const {
  Json value = Json::object();
  value.set("name", name);
  Json names = Json::array();
  for (const std::string& file : files) names.push_back(file);
  value.set("files", std::move(names));
  for (const CountField& count : kCounts) value.set(count.name, this->*count.field);
  if (longest_dropped > 0) value.set("longest_dropped", longest_dropped);
  // std::map: reasons are in one order in every file.
  value.set("dropped", count_object(dropped));
  value.set("notes", count_object(notes));
  if (!noted_at.empty()) {
    Json lines = Json::object();
    for (const auto& [note, rows] : noted_at) lines.set(note, line_list(rows));
    value.set("noted_at", std::move(lines));
  }
  value.set("bad", list_of(bad, [](const BadRow& row, Json& entry) {
              entry.set("reason", row.reason);
              entry.set("detail", row.detail);
            }));
  value.set("cut_at", list_of(cut_at, [](const CutRow& row, Json& entry) {
              entry.set("tokens", row.tokens);
              entry.set("cut_tokens", row.cut_tokens);
              if (!row.sides.empty()) entry.set("sides", row.sides);
            }));
  value.set("repaired_at", line_list(repaired_at));
  if (lone_surrogates > 0) {
    value.set("lone_surrogates", lone_surrogates);
    value.set("lone_surrogate_at", line_list(lone_surrogate_at));
  }
  value.set("cut_shown", Json(Json::Object{{"kept", cut_kept}, {"lost", cut_lost}}));
  return value;
}

SourceLedger SourceLedger::from_json(const Json& value) {
  SourceLedger ledger;
  ledger.name = value.at("name").as_string();
  for (const Json& file : value.at("files").as_array()) ledger.files.push_back(file.as_string());
  for (const CountField& count : kCounts) ledger.*count.field = value.at(count.name).as_int();
  if (const Json* longest = value.find("longest_dropped")) {
    ledger.longest_dropped = longest->as_int();
  }
  ledger.dropped = read_counts(value.at("dropped"));
  ledger.notes = read_counts(value.at("notes"));
  if (const Json* lines = value.find("noted_at")) {  // older caches have none
    for (const auto& [note, rows] : lines->as_object()) ledger.noted_at[note] = read_lines(rows);
  }
  for (const Json& entry : value.at("bad").as_array()) {
    ledger.bad.push_back(
        {read_line(entry), entry.at("reason").as_string(), entry.at("detail").as_string()});
  }
  for (const Json& entry : value.at("cut_at").as_array()) {
    const Json* sides = entry.find("sides");  // older caches have none
    ledger.cut_at.push_back({read_line(entry), entry.at("tokens").as_int(),
                             entry.at("cut_tokens").as_int(),
                             sides == nullptr ? "" : sides->as_string()});
  }
  ledger.repaired_at = read_lines(value.at("repaired_at"));
  if (const Json* rows = value.find("lone_surrogates")) {  // most ledgers have none
    ledger.lone_surrogates = rows->as_int();
    ledger.lone_surrogate_at = read_lines(value.at("lone_surrogate_at"));
  }
  ledger.cut_kept = value.at("cut_shown").at("kept").as_string();
  ledger.cut_lost = value.at("cut_shown").at("lost").as_string();
  return ledger;
}

int64_t Ledger::rows() const { return sum(sources, &SourceLedger::rows); }
int64_t Ledger::kept() const { return sum(sources, &SourceLedger::kept); }

int64_t Ledger::dropped() const {
  int64_t total = 0;
  for (const SourceLedger& source : sources) total += source.dropped_total();
  return total;
}

void Ledger::check_sums() const {
  for (const SourceLedger& source : sources) {
    // A row that is lost without a reason is a defect of xrun, not of the data.
    XRUN_CHECK(source.rows == source.kept + source.dropped_total(),
               "{}: the ledger does not add up: {} rows in, {} kept, {} dropped", source.name,
               source.rows, source.kept, source.dropped_total());
  }
}

Ledger Ledger::from_json(const Json& value) {
  Ledger ledger;
  for (const Json& source : value.at("sources").as_array()) {
    ledger.sources.push_back(SourceLedger::from_json(source));
  }
  return ledger;
}

Ledger Ledger::joined_to(const Ledger& earlier) const {
  Ledger joined = earlier;
  // Each earlier source is matched once: a recipe may read the same files twice.
  std::vector<bool> taken(earlier.sources.size(), false);
  for (const SourceLedger& source : sources) {
    size_t index = 0;
    while (index < taken.size() && (taken[index] || earlier.sources[index].name != source.name ||
                                    earlier.sources[index].files != source.files)) {
      ++index;
    }
    if (index == taken.size()) {
      joined.sources.push_back(source);
    } else {
      // A source that was read again replaces its earlier ledger.
      joined.sources[index] = source;
      taken[index] = true;
    }
  }
  return joined;
}

Json Ledger::to_json() const {
  Json value = Json::object();
  value.set("rows", rows());
  value.set("kept", kept());
  value.set("dropped", dropped());
  Json list = Json::array();
  for (const SourceLedger& source : sources) list.push_back(source.to_json());
  value.set("sources", std::move(list));
  return value;
}

}  // namespace xrun
