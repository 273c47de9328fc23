// A line is a row of cells, one per token. Marks and scores are further rows of the same cells.

#include "core/console/inspect/token_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/console/terminal/palette.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

// The gutter left of the tokens has positions and roles.
constexpr int kRoomyWidth = 50;   // least width with a column of roles
constexpr int kGutterWidth = 24;  // least width with positions
constexpr int kWidestRole = 12;
constexpr int kGutterGap = 1;  // after each column of the gutter

// A token on a line, or a piece of one that is wider than a line.
struct Cell {
  const InspectedToken* token;
  std::string shown;
  int columns;
  bool odd;  // its shade
};

std::string score_text(const std::optional<float>& value) {
  if (!value) return "";
  if (!std::isfinite(*value)) return std::isnan(*value) ? "nan" : *value < 0 ? "-inf" : "inf";
  // Avoids "-0.00" for a log-prob near 0.
  const double score = std::fabs(*value) < 0.005 ? 0.0 : static_cast<double>(*value);
  return fmt::format("{:.{}f}", score, std::fabs(score) < 10 ? 2 : 1);
}

std::string marks_of(const Cell& cell) {
  const InspectedToken& token = *cell.token;
  const auto columns = static_cast<size_t>(cell.columns);
  const WeightStep step = weight_step(token.weight);
  if (step == WeightStep::kMasked) {
    const bool own = token.origin == TokenOrigin::kTemplate;
    return std::string(columns, token.special ? '_' : own ? '^' : ' ');
  }
  std::string marks(columns, weight_color(step).mark);
  // The mark in the first column shows where a token begins.
  if (columns > 1) marks[0] = token.special ? '_' : '|';
  return marks;
}

class LineWriter {
 public:
  LineWriter(const InspectedSegment& segment, const TokenLineStyle& style)
      : segment_(segment), style_(style), room_(std::max(1, style.width - gutter_columns())) {}

  std::vector<TextLine> write(size_t begin, size_t end) {
    auto turn = turn_from(segment_, begin);
    for (size_t i = begin; i < end; ++i) {
      if (turn != segment_.turns.end() && turn->begin == i) start_turn((turn++)->role);
      // Shades alternate, so that neighbours can be told apart.
      add(segment_.tokens[i], i % 2 == 1);
    }
    end_line();
    return std::move(lines_);
  }

 private:
  int gutter_columns() const {
    const int position = style_.position_width > 0 ? style_.position_width + kGutterGap : 0;
    return position + (style_.role_width > 0 ? style_.role_width + kGutterGap : 0);
  }

  void start_turn(const std::string& role) {
    end_line();
    if (style_.role_width > 0) {
      role_ = role;
    } else {
      // Without a column for roles, the role has a line of its own.
      push(pad_to_width("", style_.position_width > 0 ? style_.position_width + kGutterGap : 0) +
           role + ":");
    }
  }

  void add(const InspectedToken& token, bool odd) {
    std::string_view shown = token.shown;
    const int wanted = std::max(text_width(shown), score_columns(token));
    // A token moves whole to the next line, unless it is wider than a line.
    if (used_ + wanted > room_ && used_ > 0) end_line();
    while (text_width(shown) > room_) {
      size_t size = fitting_size(shown, room_);
      // A wide character does not fit a line of one column and is put anyway.
      if (size == 0) size = text_character(shown, 0).size;
      put({&token, std::string(shown.substr(0, size)), text_width(shown.substr(0, size)), odd});
      shown.remove_prefix(size);
      end_line();
    }
    if (shown.empty()) return;
    // A score may be wider than a line, a cell may not.
    put({&token, std::string(shown),
         std::min(room_, std::max(text_width(shown), score_columns(token))), odd});
    if (token.bytes.find('\n') != std::string::npos) end_line();
  }

  int score_columns(const InspectedToken& token) const {
    if (!style_.scores) return 0;
    const size_t size =
        std::max(score_text(token.policy).size(), score_text(token.reference).size());
    return static_cast<int>(size) + kGutterGap;
  }

  void put(Cell cell) {
    used_ += cell.columns;
    cells_.push_back(std::move(cell));
  }

  void end_line() {
    if (cells_.empty()) return;
    std::string text = gutter(cells_.front().token->position);
    for (const Cell& cell : cells_) {
      const InspectedToken& token = *cell.token;
      text += paint_weight(cell.shown, weight_step(token.weight),
                           {cell.odd, token.special, token.origin == TokenOrigin::kTemplate},
                           style_.colors);
      // A score may be wider than its token.
      text.append(static_cast<size_t>(std::max(0, cell.columns - text_width(cell.shown))), ' ');
    }
    push(std::move(text));
    // Without colours, marks show the weights.
    if (style_.colors == ColorDepth::kNone)
      push_row([](const Cell& cell) { return marks_of(cell); });
    if (style_.scores) {
      push_row([](const Cell& cell) { return score_cell(cell, cell.token->policy); });
      push_row([](const Cell& cell) { return score_cell(cell, cell.token->reference); });
    }
    cells_.clear();
    used_ = 0;
  }

  static std::string score_cell(const Cell& cell, const std::optional<float>& value) {
    return pad_to_width(score_text(value), cell.columns);
  }

  // Adds a row below the tokens with cell_text(cell) for each token, unless all are blank.
  template <typename CellText>
  void push_row(const CellText& cell_text) {
    std::string row(static_cast<size_t>(gutter_columns()), ' ');
    for (const Cell& cell : cells_) row += cell_text(cell);
    row.erase(row.find_last_not_of(' ') + 1);
    if (row.empty()) return;
    push(dim(row));
  }

  std::string gutter(int32_t position) {
    std::string out;
    if (style_.position_width > 0) out = fmt::format("{:>{}} ", position, style_.position_width);
    // Only the first line of a turn has its role.
    if (style_.role_width > 0) {
      out += pad_to_width(std::exchange(role_, ""), style_.role_width) + " ";
    }
    return dim(out);
  }

  std::string dim(const std::string& text) const {
    if (style_.colors == ColorDepth::kNone || text.empty()) return text;
    return "\x1b[2m" + text + "\x1b[0m";
  }

  void push(std::string text) {
    text = cut_to_width(text, style_.width);
    const int columns = text_width(text);
    lines_.push_back({std::move(text), columns});
  }

  const InspectedSegment& segment_;
  const TokenLineStyle& style_;
  const int room_;
  std::vector<TextLine> lines_;
  std::vector<Cell> cells_;  // of the line that is written
  int used_ = 0;             // their columns
  std::string role_;         // of the next line's gutter
};

}  // namespace

TokenLineStyle token_line_style(const std::vector<const InspectedSegment*>& segments, int width,
                                ColorDepth colors) {
  TokenLineStyle style;
  style.width = std::max(1, width);
  style.colors = colors;
  size_t longest = 0;
  int role = 0;
  for (const InspectedSegment* segment : segments) {
    longest = std::max(longest, segment->tokens.size());
    for (const InspectedTurn& turn : segment->turns) role = std::max(role, text_width(turn.role));
    for (const InspectedToken& token : segment->tokens) {
      style.scores = style.scores || token.policy || token.reference;
    }
  }
  if (width >= kGutterWidth) {
    // At least three digits, so that the segments of a step line up.
    style.position_width = std::max(3, static_cast<int>(fmt::formatted_size("{}", longest)));
  }
  if (width >= kRoomyWidth) style.role_width = std::min(role, kWidestRole);
  return style;
}

std::vector<TextLine> token_lines(const InspectedSegment& segment, size_t begin, size_t end,
                                  const TokenLineStyle& style) {
  return LineWriter(segment, style).write(begin, end);
}

}  // namespace xrun
