// TensorBoard's event files: records of (length, masked CRC-32C of it, a protobuf Event, masked CRC-32C of that).
// Only scalars are written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file.h"

namespace satformer {

struct ScalarEvent {
  double wall_time = 0;  // seconds since 1970
  std::int64_t step = 0;
  std::vector<std::pair<std::string, float>> values;  // by tag
};

// The bytes of one record, and of the first one of a file, which says the format's version.
std::string event_record(const ScalarEvent& event);
std::string version_record(double wall_time);

// The scalar events of a file up to its first damaged or cut record, which a killed process may leave at the end.
std::vector<ScalarEvent> read_events(const std::string& path);

// The event file of a run folder. Continuing after `step` leaves one file with what was logged up to it, so that no
// step appears twice; step 0 starts anew.
class EventLog {
 public:
  EventLog(const std::string& folder, std::int64_t step);
  void add(const ScalarEvent& event);  // reaches the file at once
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<AppendFile> file_;
};

// CRC-32C (Castagnoli), as of "123456789" = 0xe3069283.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace satformer
