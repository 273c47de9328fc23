#pragma once
// The ledger of a data set: counts every row as kept or as dropped for a reason, and the cut and
// repaired ones among them.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

namespace xrun {

// A row of a file: an index into the source's list of files and a line, counted from 1.
struct SourceLine {
  int32_t file = 0;
  int64_t line = 0;
  bool operator==(const SourceLine&) const = default;
};

// Thrown for a row that cannot be used: it is dropped, counted by reason and listed.
class RowRefusal : public Error {
 public:
  RowRefusal(std::string reason, const std::string& detail)
      : Error(detail), reason_(std::move(reason)) {}
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// Thrown for a label that is a number other than 0 and 1. It ends the reading of the set: if such
// rows were merely dropped, those rated 1 would remain as good answers.
class RatingRefusal : public RowRefusal {
 public:
  using RowRefusal::RowRefusal;
};

// The reason for rows that the recipe's filter leaves out, which are not bad rows.
constexpr const char* kFilteredReason = "filter";
// The reason for rows above max_length, or too long to be read, rendered or tokenised at once.
constexpr const char* kTooLongReason = "too_long";
// The reason for rows that over_length = "cut" cannot shorten, since their prompt leaves no room
// for an answer.
constexpr const char* kNoAnswerLeftReason = "no_answer_left";
// The reason for rows with a tool call that the template leaves out.
constexpr const char* kLostCallsReason = "lost_tool_calls";
// The reason for rows with a turn that the template leaves out.
constexpr const char* kLostTurnReason = "lost_turn";

// Begins a note on rows that train something other than their author meant.
constexpr const char* kLostNote = "LOST: ";
// Returns true for such a note; other notes describe how rows were read.
bool is_warning(std::string_view note);

struct BadRow {
  SourceLine at;
  std::string reason;  // a key of SourceLedger::dropped
  std::string detail;  // the wrong value, and what is wanted
};

struct CutRow {
  SourceLine at;
  int64_t tokens = 0;      // of all streams, before the cut
  int64_t cut_tokens = 0;  // removed from them
  std::string sides = {};  // "34 of 134 tokens of the rejected side"; "": unknown
};

// The ledger of one source. Fields count rows unless their names say otherwise.
struct SourceLedger {
  static constexpr size_t kListedRows = 1000;  // bad, cut and repaired ones; more are only counted
  static constexpr size_t kNotedRows = 3;      // of one note

  std::string name;
  std::vector<std::string> files;  // as the recipe spells them
  int64_t lines = 0;               // blank ones included
  int64_t rows = 0;                // non-blank lines
  int64_t kept = 0;
  std::map<std::string, int64_t> dropped;  // by reason
  int64_t cut = 0;                         // rows that over_length = "cut" shortened
  int64_t cut_tokens = 0;
  int64_t repaired = 0;         // rows with invalid UTF-8 or a lone surrogate escape, kept or not
  int64_t lone_surrogates = 0;  // the repaired rows of valid UTF-8, which have such an escape
  int64_t repairs = 0;          // replacement characters written
  int64_t straddlers = 0;       // tokens that cross the end of a generation span; they are trained
  int64_t tokens = 0;           // of the kept rows
  int64_t trained_tokens = 0;
  int64_t zero_weight = 0;              // kept rows of weight 0, whose tokens are not trained
  std::vector<BadRow> bad;              // the first kListedRows, and the first of every reason
  std::vector<CutRow> cut_at;           // the first kListedRows
  std::vector<SourceLine> repaired_at;  // the first kListedRows with invalid UTF-8
  std::vector<SourceLine> lone_surrogate_at;  // the first kListedRows of the other repaired ones
  std::string cut_kept, cut_lost;             // the text before and after the first cut
  std::map<std::string, int64_t> notes;       // columns recognised or ignored -> rows
  int64_t more_notes = 0;                     // rows under further notes
  int64_t longest_dropped = 0;  // tokens of the longest row that max_length drops; 0: none
  std::map<std::string, std::vector<SourceLine>> noted_at;  // the first kNotedRows of each note
  std::string bad_rows_file;  // lists all bad rows; "": none is known; not stored

  int64_t dropped_total() const;
  int64_t bad_total() const;  // without those that a filter left out
  // Counts a dropped row, and lists it unless it was filtered out.
  void drop(const SourceLine& at, const std::string& reason, std::string detail);
  // Counts and lists a row that was cut; stores the text around the cut of the first one.
  void cut_row(const CutRow& row, const std::string& before, const std::string& after);
  // Counts and lists a row in which `pieces` pieces were replaced: of invalid UTF-8, or, if the row
  // is valid UTF-8 (`is_utf8`), escapes of lone surrogates.
  void repair(const SourceLine& at, int64_t pieces, bool is_utf8 = false);
  // Return "pairs.jsonl:17  no_prompt: ..." for the first `count` rows of a list. Of bad rows the
  // first of every reason comes first, even beyond `count`, then others, at most three per reason.
  std::vector<std::string> bad_lines(size_t count) const;
  std::vector<std::string> cut_lines(size_t count) const;  // the first shows both sides of the cut
  std::vector<std::string> repaired_lines(size_t count) const;
  // Counts a row under a note; beyond 100 different notes new ones only count in more_notes.
  void note(const std::string& text, const SourceLine& at);
  // Returns "7 rows: a.jsonl:3, a.jsonl:5, a.jsonl:9, ..."; only "20 rows" for a note on every kept
  // row.
  std::string noted_rows(const std::string& note) const;
  // Returns "pairs.jsonl:17".
  std::string location(const SourceLine& at) const;

  Json to_json() const;
  // Throws Error that names the field if the value does not have the form of to_json().
  static SourceLedger from_json(const Json& value);
};

// The ledger of a set, one entry per source.
struct Ledger {
  std::vector<SourceLedger> sources;

  int64_t rows() const;
  int64_t kept() const;
  int64_t dropped() const;
  // Throws Error unless rows = kept + dropped in every source.
  void check_sums() const;
  // {"sources": [...], "rows", "kept", "dropped"}; stored as ledger.json in runs and caches.
  Json to_json() const;
  // Throws Error that names the field if the value does not have the form of to_json().
  static Ledger from_json(const Json& value);
  // Returns `earlier`, the ledger of a run before it was resumed, joined with this one. A source in
  // both (same name and files) keeps its earlier position and gets the counts of this one.
  Ledger joined_to(const Ledger& earlier) const;
  // Returns a table with one line per source, then the reasons and notes, then bad rows (three per
  // reason), cut rows and repaired rows as "file:line reason: detail", at most `listed` of each
  // source and kind. Ends with a newline.
  std::string text(size_t listed = 10) const;
};

// Throws Error with counts and a list of rows if a row was dropped, cut or repaired. Filtered rows
// do not count. `building` is true if the ledger ends with the row that is being read.
void check_strict(const SourceLedger& ledger, bool building);

// Throws Error with the first bad rows if there are no rows, if none is kept, or if the share of
// bad rows, or of rows that are not UTF-8, exceeds `max_bad`. Rows left out by a filter or by
// over_length do not count as bad.
//   hint          ends the sentence about a source without a kept row
//   model_length  the largest max_length that the message may suggest; 0: no limit is known
void check_kept(const SourceLedger& ledger, double max_bad, const std::string& hint = "",
                int64_t model_length = 0);

// Returns the detail of a bad row as it is stored: cut to at most 400 bytes.
std::string short_detail(const std::string& detail);

}  // namespace xrun
