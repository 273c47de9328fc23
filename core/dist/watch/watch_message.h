#pragma once
// Bodies of the watchdogs' frames, as bytes in memory: all ranks run one build of one machine type
// (rendezvous.h).

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "core/dist/watch/flight_record.h"
#include "core/dist/watch/judge.h"

namespace xrun {

struct WatchHello {
  uint64_t run_id;
  int64_t rank;
  int64_t unix_ms;
};

// One rank in a table. Times of the status are ages.
struct WatchTableRow {
  RankStatus status;
  int32_t closed;
  int32_t left;
};

template <class Value>
std::string message_bytes(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Reads value number `index` of a body. Returns false if the body is too short.
template <class Value>
bool read_message_bytes(const std::string& body, size_t index, Value& out) {
  if (body.size() < (index + 1) * sizeof out) return false;
  std::memcpy(static_cast<void*>(&out), body.data() + index * sizeof out, sizeof out);
  return true;
}

std::string verdict_message(const RankVerdict& verdict);
// Returns nothing if the body is too short.
std::optional<RankVerdict> read_verdict(const std::string& body);

}  // namespace xrun
