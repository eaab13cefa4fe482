#include "io/gguf.h"

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"

namespace satformer {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t gguf_version = 3;
constexpr std::size_t gguf_alignment = 32;  // of tensors, the format's default
constexpr std::size_t most_dimensions = 4;

// Types of values in the file.
enum ValueKind : std::uint32_t { uint8 = 0, uint32 = 4, int32 = 5, float32 = 6, boolean = 7, text = 8, array = 9 };

template <class T>
constexpr ValueKind value_kind() {
  if constexpr (std::is_same_v<T, bool>) return boolean;
  if constexpr (std::is_same_v<T, std::uint8_t>) return uint8;
  if constexpr (std::is_same_v<T, std::uint32_t>) return uint32;
  if constexpr (std::is_same_v<T, std::int32_t>) return int32;
  if constexpr (std::is_same_v<T, float>) return float32;
  return text;
}

std::size_t aligned(std::size_t size) { return (size + gguf_alignment - 1) / gguf_alignment * gguf_alignment; }

class GgufHead {
 public:
  template <class T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void string(const std::string& value) {
    number<std::uint64_t>(value.size());
    bytes_ += value;
  }
  void value(const GgufValue& any) {
    std::visit([this](const auto& v) { put(v); }, any);
  }
  std::string& bytes() { return bytes_; }

 private:
  void element(const std::string& value) { string(value); }
  template <class T>
  void element(T value) {
    number(value);
  }
  template <class T>
  void put(const T& value) {
    number<std::uint32_t>(value_kind<T>());
    element(value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    number<std::uint32_t>(array);
    number<std::uint32_t>(value_kind<T>());
    number<std::uint64_t>(values.size());
    for (const T& value : values) element(value);
  }
  std::string bytes_;
};

class GgufReader {
 public:
  GgufReader(std::span<const std::byte> bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  template <class... What>
  [[noreturn]] void refuse(const What&... what) const {
    fail(ExitCode::checkpoint, origin_, ": not a usable GGUF file: ", what...);
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string string() {
    const auto bytes = take(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  GgufValue value(const std::string& key) {
    const auto kind = number<std::uint32_t>();
    switch (kind) {
      case boolean:
        return number<std::uint8_t>() != 0;
      case uint32:
        return number<std::uint32_t>();
      case float32:
        return number<float>();
      case text:
        return string();
      case array:
        return list(key);
      default:
        refuse("'", key, "' has the type ", kind, ", which is not read here");
    }
  }
  std::size_t at() const { return at_; }
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > bytes_.size() - at_) refuse("it ends within its head, at byte ", bytes_.size());
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }

 private:
  template <class T, class Read>
  std::vector<T> elements(std::uint64_t count, std::size_t least_bytes, const Read& read) {
    if (count > (bytes_.size() - at_) / least_bytes) refuse("a list of ", count, " elements does not fit into it");
    std::vector<T> values;
    values.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(read());
    return values;
  }
  GgufValue list(const std::string& key) {
    const auto kind = number<std::uint32_t>();
    const auto count = number<std::uint64_t>();
    switch (kind) {
      case uint8:
        return elements<std::uint8_t>(count, 1, [this] { return number<std::uint8_t>(); });
      case int32:
        return elements<std::int32_t>(count, 4, [this] { return number<std::int32_t>(); });
      case float32:
        return elements<float>(count, 4, [this] { return number<float>(); });
      case text:
        return elements<std::string>(count, 8, [this] { return string(); });
      default:
        refuse("'", key, "' is a list of the type ", kind, ", which is not read here");
    }
  }
  std::span<const std::byte> bytes_;
  const std::string& origin_;
  std::size_t at_ = 0;
};

}  // namespace

std::string gguf_type_name(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return "f32";
    case GgufType::f16:
      return "f16";
    case GgufType::q8_0:
      return "q8_0";
    case GgufType::bf16:
      return "bf16";
  }
  return concat("type ", static_cast<std::uint32_t>(type));
}

std::size_t GgufTensor::bytes() const {
  std::size_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
  switch (type) {
    case GgufType::f32:
      return elements * 4;
    case GgufType::q8_0:
      return elements / q8_0_block * (q8_0_block + 2);
    default:
      return elements * 2;
  }
}

void write_gguf(const std::string& path, const GgufMetadata& metadata, std::span<const GgufTensor> tensors,
                const std::function<std::vector<std::byte>(std::size_t)>& data) {
  GgufHead head;
  head.bytes() = "GGUF";
  head.number(gguf_version);
  head.number<std::uint64_t>(tensors.size());
  head.number<std::uint64_t>(metadata.size());
  for (const auto& [key, value] : metadata) {
    head.string(key);
    head.value(value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensor& t : tensors) {
    head.string(t.name);
    head.number(static_cast<std::uint32_t>(t.shape.size()));
    for (auto size = t.shape.rbegin(); size != t.shape.rend(); ++size) head.number<std::uint64_t>(*size);
    head.number(static_cast<std::uint32_t>(t.type));
    head.number(offset);
    offset += aligned(t.bytes());
  }
  head.bytes().resize(aligned(head.bytes().size()));
  AtomicFile file(path);
  file.write(head.bytes());
  const std::string padding(gguf_alignment, '\0');
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<std::byte> bytes = data(i);
    if (bytes.size() != tensors[i].bytes()) {
      fail(ExitCode::internal, "tensor ", tensors[i].name, " has ", bytes.size(), " bytes, not ", tensors[i].bytes());
    }
    file.write(bytes);
    file.write(std::string_view(padding).substr(0, aligned(bytes.size()) - bytes.size()));
  }
  file.commit();
}

GgufFile::GgufFile(const std::string& path) : file_(path) {
  GgufReader in(file_.bytes(), path);
  if (file_.bytes().size() < 24 || std::memcmp(file_.bytes().data(), "GGUF", 4) != 0) {
    in.refuse("it does not begin with GGUF");
  }
  in.take(4);
  const auto version = in.number<std::uint32_t>();
  if (version != gguf_version) in.refuse("version ", version, ", not ", gguf_version);
  const auto num_tensors = in.number<std::uint64_t>(), num_values = in.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < num_values; ++i) {
    std::string key = in.string();
    GgufValue value = in.value(key);
    if (!keys_.emplace(key, metadata_.size()).second) in.refuse("'", key, "' is there twice");
    metadata_.emplace_back(std::move(key), std::move(value));
  }
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    GgufTensor t;
    t.name = in.string();
    const auto dimensions = in.number<std::uint32_t>();
    if (dimensions < 1 || dimensions > most_dimensions)
      in.refuse("tensor ", t.name, " has ", dimensions, " dimensions");
    std::uint64_t elements = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      const auto size = in.number<std::uint64_t>();
      if (size < 1 || size > (std::uint64_t{1} << 40) / elements) in.refuse("tensor ", t.name, " is too large");
      elements *= size;
      t.shape.insert(t.shape.begin(), static_cast<std::int64_t>(size));
    }
    t.type = static_cast<GgufType>(in.number<std::uint32_t>());
    if (gguf_type_name(t.type).starts_with("type")) {
      in.refuse("tensor ", t.name, " has the ", gguf_type_name(t.type), ", which is not read here");
    }
    if (t.type == GgufType::q8_0 && t.shape.back() % q8_0_block != 0) {
      in.refuse("tensor ", t.name, " has rows that are no whole blocks");
    }
    offsets.push_back(in.number<std::uint64_t>());
    if (!names_.emplace(t.name, tensors_.size()).second) in.refuse("tensor ", t.name, " is there twice");
    tensors_.push_back(std::move(t));
  }
  const std::size_t begin = aligned(in.at());
  const std::size_t room = begin <= file_.bytes().size() ? file_.bytes().size() - begin : 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (offsets[i] % gguf_alignment != 0 || offsets[i] > room || tensors_[i].bytes() > room - offsets[i]) {
      in.refuse("tensor ", tensors_[i].name, " lies outside the file");
    }
    tensors_[i].data = file_.bytes().subspan(begin + offsets[i], tensors_[i].bytes());
  }
}

const GgufTensor* GgufFile::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace satformer
