#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "io/bulk_file.h"
#include "io/mapping_faults.h"

namespace satformer {
namespace {

constexpr std::uint64_t max_header_bytes = 100'000'000;
constexpr std::string_view metadata_key = "__metadata__";

struct DtypeBits {
  std::string_view name;
  std::uint64_t bits;
};
constexpr DtypeBits dtype_table[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"F64", 64},    {"I64", 64},    {"U64", 64},    {"C64", 64},
};

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const auto& dtype : dtype_table) names.emplace_back(dtype.name);
  return names;
}

std::uint64_t dtype_bits(std::string_view dtype) {
  for (const auto& known : dtype_table) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

// Bytes of a tensor; nothing where its bits do not fit 64 bits or fill no whole bytes.
std::optional<std::uint64_t> tensor_bytes(std::span<const std::int64_t> shape, std::uint64_t element_bits) {
  std::uint64_t bits = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits)) return std::nullopt;
  }
  if (__builtin_mul_overflow(bits, element_bits, &bits) || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

struct Entry {
  TensorView view;
  std::uint64_t begin = 0, end = 0;
};

// Reads the header as events: a hostile one costs no more than its length, duplicate keys are seen, and everything
// that is not {"name": {"dtype", "shape", "data_offsets"}} is refused, but for further keys of a tensor, which are
// skipped as the official reader does.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string path, std::map<std::string, std::string>& metadata)
      : path_(std::move(path)), metadata_(metadata) {}
  std::vector<Entry> take() { return std::move(entries_); }

  bool start_object(std::size_t) override {
    if (skipping()) return deeper();
    if (place_ == Place::start) return enter(Place::top);
    if (place_ == Place::value_of_name) {
      const bool metadata = name_ == metadata_key;
      if (!metadata) {
        entries_.emplace_back();
        entries_.back().view.name = name_;
        seen_fields_ = 0;
      }
      return enter(metadata ? Place::metadata : Place::tensor);
    }
    refuse("an object");
  }
  bool end_object() override {
    if (depth_ > 0) return shallower();
    if (place_ == Place::top) return enter(Place::finished);
    if (place_ == Place::tensor && seen_fields_ != 7) {
      reject("needs dtype, shape and data_offsets");
    }
    return enter(Place::top);
  }
  bool key(std::string& key) override {
    if (depth_ > 0) return true;
    if (place_ == Place::top) {
      name_ = key;
      shown_ = key.size() <= 200 ? key : key.substr(0, 200) + "...";
      if (!names_.insert(key).second) reject("is given twice");
      return enter(Place::value_of_name);
    }
    if (place_ == Place::metadata) {
      key_ = key;
      if (metadata_.count(key)) fail(ExitCode::checkpoint, path_, ": metadata key '", key, "' is given twice");
      return enter(Place::metadata_value);
    }
    static constexpr std::string_view fields[] = {"dtype", "shape", "data_offsets"};
    static constexpr Place places[] = {Place::dtype, Place::before_shape, Place::before_offsets};
    for (unsigned i = 0; i < 3; ++i) {
      if (key != fields[i]) continue;
      if (seen_fields_ & (1u << i)) reject("gives '", key, "' twice");
      seen_fields_ |= 1u << i;
      return enter(places[i]);
    }
    return enter(Place::skipped);
  }
  bool start_array(std::size_t) override {
    if (skipping()) return deeper();
    if (place_ == Place::before_shape) return enter(Place::shape);
    if (place_ == Place::before_offsets) {
      offsets_ = 0;
      return enter(Place::offsets);
    }
    refuse("an array");
  }
  bool end_array() override {
    if (depth_ > 0) return shallower();
    if (place_ == Place::offsets && offsets_ != 2) reject("needs two data_offsets");
    return enter(Place::tensor);
  }
  bool string(std::string& text) override {
    if (skipping()) return skip();
    if (place_ == Place::metadata_value) {
      metadata_.emplace(key_, text);
      return enter(Place::metadata);
    }
    if (place_ != Place::dtype) refuse("a string");
    if (dtype_bits(text) == 0) reject("has an unknown dtype '", text, "'.", did_you_mean(text, dtype_names()));
    entries_.back().view.dtype = text;
    return enter(Place::tensor);
  }
  bool number_unsigned(std::uint64_t value) override {
    if (skipping()) return skip();
    if (place_ == Place::shape) {
      if (value > static_cast<std::uint64_t>(INT64_MAX)) reject("has an extent of ", value, ", which is too large");
      entries_.back().view.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ == Place::offsets) {
      if (offsets_ == 0) entries_.back().begin = value;
      if (offsets_ == 1) entries_.back().end = value;
      if (++offsets_ > 2) reject("needs two data_offsets");
      return true;
    }
    refuse("a number");
  }
  bool number_integer(std::int64_t value) override {
    if (skipping()) return skip();
    refuse(concat("the number ", value));
  }
  bool number_float(double, const std::string& text) override {
    if (skipping()) return skip();
    refuse(concat("the number ", text));
  }
  bool null() override {
    if (skipping()) return skip();
    if (place_ == Place::value_of_name && name_ == metadata_key) return enter(Place::top);
    refuse("null");
  }
  bool boolean(bool) override {
    if (skipping()) return skip();
    refuse("a boolean");
  }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(ExitCode::checkpoint, path_, ": the header is not valid JSON at its byte ", position);
  }

 private:
  enum class Place {
    start,
    top,
    value_of_name,
    metadata,
    metadata_value,
    tensor,
    skipped,
    dtype,
    before_shape,
    shape,
    before_offsets,
    offsets,
    finished
  };

  // Within the value of an unknown key: how deep.
  bool skipping() const { return place_ == Place::skipped; }
  bool deeper() {
    constexpr int max_depth = 100;
    if (++depth_ > max_depth) reject("has a value nested deeper than ", max_depth, " levels");
    return true;
  }
  bool shallower() {
    --depth_;
    return skip();
  }
  bool skip() { return depth_ > 0 || enter(Place::tensor); }
  bool enter(Place place) {
    place_ = place;
    return true;
  }
  template <class... Args>
  [[noreturn]] void reject(const Args&... args) {
    fail(ExitCode::checkpoint, path_, ": tensor '", shown_, "' ", args...);
  }
  [[noreturn]] void refuse(const std::string& what) {
    if (place_ == Place::start) fail(ExitCode::checkpoint, path_, ": the header is ", what, ", not an object");
    if (place_ == Place::metadata_value) {
      fail(ExitCode::checkpoint, path_, ": metadata '", key_, "' is ", what, ", not a string");
    }
    reject("has ", what, " where a header allows none");
  }

  std::string path_, name_, shown_, key_;  // shown_: the name, not endless
  std::map<std::string, std::string>& metadata_;
  std::set<std::string> names_;
  std::vector<Entry> entries_;
  Place place_ = Place::start;
  unsigned seen_fields_ = 0;
  int offsets_ = 0, depth_ = 0;
};

}  // namespace

std::size_t dtype_size(std::string_view dtype) { return dtype_bits(dtype) / 8; }

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  const auto bytes = file_.bytes();
  const auto reject = [&](const auto&... args) { fail(ExitCode::checkpoint, path, ": ", args...); };
  if (bytes.size() < 8) reject("a safetensors file has at least 8 bytes, this one ", bytes.size());
  static_assert(std::endian::native == std::endian::little, "ids and tensors are stored little-endian");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > max_header_bytes) {
    reject("the header length is ", header_bytes, " and may be at most ", max_header_bytes,
           "; this is not a safetensors file");
  }
  if (header_bytes > bytes.size() - 8) {
    reject("the file ends inside its header: ", header_bytes, " bytes declared, ", bytes.size() - 8, " there");
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes);
  if (header.empty() || header.front() != '{') reject("the header does not start with '{'");
  // The JSON parser takes a zero byte for the end.
  if (header.find('\0') != header.npos) reject("the header holds a zero byte at its byte ", header.find('\0') + 1);
  const auto data = bytes.subspan(8 + header_bytes);

  HeaderReader reader(path, metadata_);
  nlohmann::json::sax_parse(header.begin(), header.end(), &reader);
  std::vector<Entry> entries = reader.take();
  // Empty tensors share their begin with the next one and go before it.
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t position = 0;
  for (Entry& entry : entries) {
    TensorView& view = entry.view;
    if (entry.end < entry.begin) {
      reject("tensor '", view.name, "' ends at ", entry.end, ", before it begins at ", entry.begin);
    }
    if (entry.begin != position) {
      reject("tensor '", view.name, "' begins at ", entry.begin, ", where ", position,
             " was expected: ", entry.begin < position ? "tensors overlap" : "there is a gap between tensors");
    }
    const auto size = tensor_bytes(view.shape, dtype_bits(view.dtype));
    if (!size) reject("tensor '", view.name, "' has a shape whose size overflows or is no whole number of bytes");
    if (*size != entry.end - entry.begin) {
      reject("tensor '", view.name, "' has ", entry.end - entry.begin, " bytes where its shape and dtype ",
             view.dtype, " make ", *size);
    }
    if (entry.end > data.size()) {
      reject("the file is cut: tensor '", view.name, "' ends at byte ", entry.end, " of ", data.size());
    }
    view.data = data.subspan(entry.begin, *size);
    position = entry.end;
  }
  if (position != data.size()) reject(data.size() - position, " bytes follow the last tensor");
  tensors_.reserve(entries.size());
  for (Entry& entry : entries) {
    index_.emplace(entry.view.name, tensors_.size());
    tensors_.push_back(std::move(entry.view));
  }
}

void SafetensorsFile::check_not_cut() const { satformer::check_not_cut(file_); }

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

std::string write_safetensors(const std::string& path, std::vector<TensorView> tensors,
                              std::map<std::string, std::string> metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    const std::size_t size_a = dtype_size(a.dtype), size_b = dtype_size(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  metadata.emplace("format", "pt");
  std::string header = "{";
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  try {
    header += nlohmann::json(metadata_key).dump() + ":" + nlohmann::json(metadata).dump();
    for (const TensorView& tensor : tensors) {
      const auto size = tensor_bytes(tensor.shape, dtype_bits(tensor.dtype));
      if (dtype_size(tensor.dtype) == 0 || !size || *size != tensor.data.size() || tensor.name == metadata_key) {
        fail(ExitCode::internal, path, ": tensor '", tensor.name, "' of dtype ", tensor.dtype, " with ",
             tensor.data.size(), " bytes does not fit its shape");
      }
      if (!names.insert(tensor.name).second) {
        fail(ExitCode::internal, path, ": tensor '", tensor.name, "' is written twice");
      }
      header += concat(",", nlohmann::json(tensor.name).dump(), ":{\"dtype\":\"", tensor.dtype,
                       "\",\"shape\":", nlohmann::json(tensor.shape).dump(), ",\"data_offsets\":[", offset, ",",
                       offset + *size, "]}");
      offset += *size;
    }
  } catch (const nlohmann::json::exception&) {
    fail(ExitCode::internal, path, ": a tensor name or metadata value is not UTF-8");
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > max_header_bytes) {
    fail(ExitCode::checkpoint, path, ": ", tensors.size(), " tensors need a header of ", header.size(),
         " bytes and the format allows ", max_header_bytes);
  }
  BulkFile file(path);
  const std::uint64_t header_bytes = header.size();
  file.write(std::as_bytes(std::span(&header_bytes, 1)));
  file.write(header);
  for (const TensorView& tensor : tensors) file.write(tensor.data);
  return file.commit();
}

}  // namespace satformer
