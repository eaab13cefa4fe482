#include "io/torch_archive.h"

#include <cstring>
#include <fstream>

#include "base/error.h"

namespace satformer {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t max_pickle_bytes = std::size_t{16} << 20, max_tensors = 200'000, max_name_bytes = 512;
constexpr int max_depth = 32;
constexpr std::size_t max_dimensions = 64;

struct StorageType {
  std::string_view global, dtype;
};
constexpr StorageType storage_types[] = {
    {"torch FloatStorage", "F32"},     {"torch DoubleStorage", "F64"}, {"torch HalfStorage", "F16"},
    {"torch BFloat16Storage", "BF16"}, {"torch LongStorage", "I64"},   {"torch IntStorage", "I32"},
    {"torch ShortStorage", "I16"},     {"torch CharStorage", "I8"},    {"torch ByteStorage", "U8"},
    {"torch BoolStorage", "BOOL"},
};

bool is_call(const PickleValue& value, std::string_view function) {
  return value.kind == Kind::object && value.items[0]->text == function;
}

}  // namespace

bool is_torch_archive(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char head[4] = {};
  return file.read(head, sizeof head) && std::memcmp(head, "PK\x03\x04", sizeof head) == 0;
}

TorchArchive::TorchArchive(const std::string& path) : archive_(path) {
  const std::span<const std::byte>* pickle = nullptr;
  for (const auto& [name, bytes] : archive_.members()) {
    if (name != "data.pkl" && !name.ends_with("/data.pkl")) continue;
    if (pickle) fail(ExitCode::checkpoint, path, ": the archive holds two files data.pkl");
    pickle = &bytes;
    prefix_ = name.substr(0, name.size() - std::string_view("data.pkl").size());
  }
  if (!pickle) fail(ExitCode::checkpoint, path, ": no file of torch.save: the archive holds no data.pkl");
  if (pickle->size() > max_pickle_bytes) {
    fail(ExitCode::checkpoint, path, ": data.pkl has ", pickle->size(), " bytes and may have at most ",
         max_pickle_bytes);
  }
  if (const auto order = archive_.members().find(prefix_ + "byteorder"); order != archive_.members().end()) {
    const std::string_view text(reinterpret_cast<const char*>(order->second.data()), order->second.size());
    if (text != "little") fail(ExitCode::checkpoint, path, ": its byte order is not little-endian");
  }
  pickle_ = std::make_unique<Pickle>(*pickle, path);
  std::set<const PickleValue*> seen;
  walk(pickle_->root(), "", 0, seen);
}

void TorchArchive::walk(const PickleValue& value, const std::string& name, int depth,
                        std::set<const PickleValue*>& seen) {
  if (is_call(value, "torch._utils _rebuild_parameter") && value.items[1]->kind == Kind::tuple &&
      !value.items[1]->items.empty() && depth < max_depth) {
    return walk(*value.items[1]->items[0], name, depth + 1, seen);
  }
  if (is_call(value, "torch._utils _rebuild_tensor_v2")) {
    if (names_.size() == max_tensors) fail(ExitCode::checkpoint, path(), ": more than ", max_tensors, " tensors");
    if (!tensors_.emplace(name, tensor(value, name)).second) {
      fail(ExitCode::checkpoint, path(), ": tensor '", name, "' is there twice");
    }
    names_.push_back(name);
    return;
  }
  const bool is_dict = value.kind == Kind::dict;
  if (!is_dict && value.kind != Kind::list && value.kind != Kind::tuple) return;
  // What several places share is listed at the first; so is what contains itself.
  if (!seen.insert(&value).second) return;
  if (depth == max_depth) fail(ExitCode::checkpoint, path(), ": values nest deeper than ", max_depth, " levels");
  const std::size_t step = is_dict ? 2 : 1;
  for (std::size_t i = 0; i + step <= value.items.size(); i += step) {
    std::string key = std::to_string(i);
    if (is_dict) {
      const PickleValue& k = *value.items[i];
      if (k.kind != Kind::string && k.kind != Kind::integer) continue;
      key = k.kind == Kind::string ? std::string(k.text.substr(0, max_name_bytes + 1)) : std::to_string(k.integer);
    }
    const std::string child = name.empty() ? key : name + "." + key;
    if (child.size() > max_name_bytes) {
      fail(ExitCode::checkpoint, path(), ": a name has more than ", max_name_bytes, " bytes");
    }
    walk(*value.items[i + step - 1], child, depth + 1, seen);
  }
}

void TorchArchive::open_storage(const PickleValue& storage, const std::string& name, Tensor& tensor) const {
  const auto reject = [&](const auto&... what) {
    fail(ExitCode::checkpoint, path(), ": tensor '", name, "' ", what...);
  };
  const PickleValue* id = storage.kind == Kind::persistent ? storage.items[0] : nullptr;
  if (!id || id->kind != Kind::tuple || id->items.size() != 5 || id->items[0]->kind != Kind::string ||
      id->items[0]->text != "storage" || id->items[1]->kind != Kind::global || id->items[2]->kind != Kind::string ||
      id->items[4]->kind != Kind::integer) {
    reject("has no storage that could be read");
  }
  for (const StorageType& type : storage_types) {
    if (type.global == id->items[1]->text) tensor.dtype = type.dtype;
  }
  if (tensor.dtype.empty()) reject("has a storage of the unknown type '", id->items[1]->text, "'");
  const std::string member = prefix_ + "data/" + std::string(id->items[2]->text.substr(0, 100));
  const auto found = archive_.members().find(member);
  if (found == archive_.members().end()) reject("needs '", member, "', which the archive lacks");
  tensor.storage = found->second;
  const std::int64_t elements = id->items[4]->integer;
  std::uint64_t bytes = 0;
  if (elements < 0 ||
      __builtin_mul_overflow(static_cast<std::uint64_t>(elements), dtype_size(tensor.dtype), &bytes) ||
      bytes != tensor.storage.size()) {
    reject("needs a storage of ", elements, " elements ", tensor.dtype, ", and '", member, "' has ",
           tensor.storage.size(), " bytes");
  }
}

TorchArchive::Tensor TorchArchive::tensor(const PickleValue& object, const std::string& name) const {
  const auto reject = [&](const auto&... what) {
    fail(ExitCode::checkpoint, path(), ": tensor '", name, "' ", what...);
  };
  const auto& arguments = object.items[1]->items;
  if (arguments.size() < 4 || arguments[1]->kind != Kind::integer) reject("lacks its storage, offset or shape");
  Tensor t;
  open_storage(*arguments[0], name, t);
  t.offset = arguments[1]->integer;
  for (const auto& [list, numbers] : {std::pair{arguments[2], &t.shape}, std::pair{arguments[3], &t.strides}}) {
    const PickleValue* tuple = list;
    if (is_call(*tuple, "torch Size") && tuple->items[1]->items.size() == 1) tuple = tuple->items[1]->items[0];
    if (tuple->kind != Kind::tuple || tuple->items.size() > max_dimensions) reject("has no usable shape and strides");
    for (const PickleValue* number : tuple->items) {
      if (number->kind != Kind::integer || number->integer < 0) reject("has an extent or a stride that is no number");
      numbers->push_back(number->integer);
    }
  }
  if (t.shape.size() != t.strides.size()) {
    reject("has ", t.shape.size(), " dimensions and ", t.strides.size(), " strides");
  }
  const std::uint64_t stored = t.storage.size() / dtype_size(t.dtype);
  for (const std::int64_t extent : t.shape) {
    if (__builtin_mul_overflow(t.elements, static_cast<std::uint64_t>(extent), &t.elements)) {
      // An extent of zero further on makes it empty all the same; nobody saves such a tensor.
      reject("has a shape whose size overflows");
    }
  }
  if (t.offset < 0) reject("begins before its storage");
  if (t.elements == 0) return t;
  // The last element's place, and whether the elements lie side by side in order.
  std::uint64_t last = static_cast<std::uint64_t>(t.offset), expected = 1;
  for (std::size_t i = t.shape.size(); i-- > 0;) {
    const auto steps = static_cast<std::uint64_t>(t.shape[i] - 1), stride = static_cast<std::uint64_t>(t.strides[i]);
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(steps, stride, &reach) || __builtin_add_overflow(last, reach, &last))
      last = UINT64_MAX;
    if (steps > 0 && stride != expected) t.contiguous = false;
    expected *= steps + 1;
    if (last == UINT64_MAX) break;
  }
  if (last >= stored) reject("reaches element ", last, " of a storage of ", stored);
  if (t.elements > stored) reject("repeats elements: it has ", t.elements, " in a storage of ", stored);
  return t;
}

TensorView TorchArchive::read(std::string_view name, std::vector<std::byte>& buffer) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) fail(ExitCode::internal, path(), ": no tensor '", std::string(name), "'");
  const Tensor& t = it->second;
  const std::size_t size = dtype_size(t.dtype);
  TensorView view{it->first, std::string(t.dtype), t.shape, {}};
  if (t.elements == 0) return view;
  const auto storage = t.storage.subspan(static_cast<std::size_t>(t.offset) * size);
  if (t.contiguous) {
    view.data = storage.first(t.elements * size);
    return view;
  }
  buffer.resize(t.elements * size);
  std::vector<std::int64_t> index(t.shape.size(), 0);
  std::int64_t from = 0;
  for (std::size_t to = 0; to < buffer.size(); to += size) {
    std::memcpy(buffer.data() + to, storage.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t axis = t.shape.size(); axis-- > 0;) {
      from += t.strides[axis];
      if (++index[axis] < t.shape[axis]) break;
      from -= t.strides[axis] * t.shape[axis];
      index[axis] = 0;
    }
  }
  view.data = buffer;
  return view;
}

std::optional<std::int64_t> TorchArchive::integer(std::string_view key) const {
  const PickleValue* value = pickle_->root().find(key);
  if (!value || value->kind != Kind::integer) return std::nullopt;
  return value->integer;
}

}  // namespace satformer
