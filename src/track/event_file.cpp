#include "track/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

namespace satformer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view file_mark = "events.out.tfevents.";

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0x82f63b78u : 0u);
    table[i] = c;
  }
  return table;
}();

// A checksum stored beside what it is of is rotated and shifted, so that checksums of checksums stay sound.
std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <class T>
void put(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

// Protobuf's wire format: a field is its number and kind, then its value.
enum Kind : unsigned { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_key(std::string& out, unsigned field, Kind kind) { put_varint(out, field << 3 | kind); }
void put_text(std::string& out, unsigned field, std::string_view text) {
  put_key(out, field, length);
  put_varint(out, text.size());
  out += text;
}

std::string record(const std::string& event) {
  std::string size, out;
  put<std::uint64_t>(size, event.size());
  out = size;
  put(out, masked(size));
  out += event;
  put(out, masked(event));
  return out;
}

// Reads fields of a message; false from next() at its end or where it is malformed.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  bool next() {
    std::uint64_t key = 0;
    if (at_ >= bytes_.size() || !read_varint(key)) return false;
    field = static_cast<unsigned>(key >> 3);
    kind = static_cast<unsigned>(key & 7);
    if (kind == varint) return read_varint(number);
    std::uint64_t size = kind == fixed64 ? 8 : kind == fixed32 ? 4 : 0;
    if (kind != fixed64 && kind != fixed32 && (kind != length || !read_varint(size))) return false;
    if (size > bytes_.size() - at_) return false;
    value = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }
  template <class T>
  T as() const {
    T result{};
    if (value.size() == sizeof result) std::memcpy(&result, value.data(), sizeof result);
    return result;
  }
  unsigned field = 0, kind = 0;
  std::uint64_t number = 0;
  std::string_view value;

 private:
  bool read_varint(std::uint64_t& out) {
    out = 0;
    for (unsigned shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      out |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  std::string_view bytes_;
  std::size_t at_ = 0;
};

ScalarEvent parse_event(std::string_view bytes) {
  ScalarEvent event;
  for (Fields f(bytes); f.next();) {
    if (f.field == 1) event.wall_time = f.as<double>();
    if (f.field == 2) event.step = static_cast<std::int64_t>(f.number);
    if (f.field != 5) continue;
    for (Fields summary(f.value); summary.next();) {
      if (summary.field != 1 || summary.kind != length) continue;
      std::string tag;
      std::optional<float> scalar;
      for (Fields v(summary.value); v.next();) {
        if (v.field == 1) tag = v.value;
        if (v.field == 2 && v.kind == fixed32) scalar = v.as<float>();
      }
      if (scalar) event.values.emplace_back(std::move(tag), *scalar);
    }
  }
  return event;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(file_mark)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string event_record(const ScalarEvent& event) {
  std::string summary, message;
  for (const auto& [tag, value] : event.values) {
    std::string entry;
    put_text(entry, 1, tag);
    put_key(entry, 2, fixed32);
    put(entry, value);
    put_text(summary, 1, entry);
  }
  put_key(message, 1, fixed64);
  put(message, event.wall_time);
  put_key(message, 2, varint);
  put_varint(message, static_cast<std::uint64_t>(event.step));
  put_text(message, 5, summary);
  return record(message);
}

std::string version_record(double wall_time) {
  std::string message;
  put_key(message, 1, fixed64);
  put(message, wall_time);
  put_text(message, 3, "brain.Event:2");
  return record(message);
}

std::vector<ScalarEvent> read_events(const std::string& path) {
  std::vector<ScalarEvent> events;
  const std::string text = read_file(path);
  const std::string_view bytes = text;
  for (std::size_t at = 0; bytes.size() - at >= 16;) {
    std::uint64_t size = 0;
    std::uint32_t size_crc = 0, crc = 0;
    std::memcpy(&size, bytes.data() + at, 8);
    std::memcpy(&size_crc, bytes.data() + at + 8, 4);
    if (size_crc != masked(bytes.substr(at, 8)) || size > bytes.size() - at - 16) break;
    const std::string_view message = bytes.substr(at + 12, size);
    std::memcpy(&crc, message.data() + size, 4);
    if (crc != masked(message)) break;
    ScalarEvent event = parse_event(message);
    if (!event.values.empty()) events.push_back(std::move(event));
    at += 16 + size;
  }
  return events;
}

EventLog::EventLog(const std::string& folder, std::int64_t step) {
  const std::vector<std::string> old = event_files(folder);
  std::string text = version_record(now());
  if (step > 0) {
    for (const std::string& path : old) {
      for (const ScalarEvent& event : read_events(path)) {
        if (event.step <= step) text += event_record(event);
      }
    }
  }
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  char name[400];
  std::snprintf(name, sizeof name, "%s/%s%010lld.%s.%d.0", "", std::string(file_mark).c_str(),
                static_cast<long long>(now()), host, static_cast<int>(::getpid()));
  path_ = folder + name;
  write_file_atomic(path_, text);
  for (const std::string& path : old) {
    if (path != path_) fs::remove(path);
  }
  file_ = std::make_unique<AppendFile>(path_);
}

void EventLog::add(const ScalarEvent& event) {
  if (!event.values.empty()) file_->append(event_record(event));
}

}  // namespace satformer
