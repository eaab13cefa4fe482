#include "io/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/error.h"

namespace satformer {
namespace {

using Kind = PickleValue::Kind;

// What appears in state dicts, optimizer states and the states of random generators. None of it is called.
constexpr std::string_view allowed_globals[] = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    "torch FloatStorage",
    "torch DoubleStorage",
    "torch HalfStorage",
    "torch BFloat16Storage",
    "torch LongStorage",
    "torch IntStorage",
    "torch ShortStorage",
    "torch CharStorage",
    "torch ByteStorage",
    "torch BoolStorage",
    "torch Size",
    "torch device",
    "torch float32",
    "torch float16",
    "torch bfloat16",
    "numpy ndarray",
    "numpy dtype",
    "numpy.core.multiarray _reconstruct",
    "numpy._core.multiarray _reconstruct",
    "numpy.core.multiarray scalar",
    "numpy._core.multiarray scalar",
    "_codecs encode",
};

}  // namespace

const char* kind_name(Kind kind) {
  static constexpr const char* names[] = {"None",     "a boolean", "an integer", "a number",
                                          "a string", "a list",    "a tuple",    "a dict",
                                          "a class",  "an object", "a storage",  "a large integer"};
  return names[static_cast<int>(kind)];
}

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::dict) return nullptr;
  // As in Python, a later pair replaces an earlier one.
  for (std::size_t i = items.size(); i >= 2; i -= 2) {
    if (items[i - 2]->kind == Kind::string && items[i - 2]->text == key) return items[i - 1];
  }
  return nullptr;
}

// One pass over the opcodes. Work and memory are linear in the length of the pickle: an opcode makes at most one
// value and moves each stack element at most once.
class PickleReader {
 public:
  PickleReader(Pickle& pickle, std::span<const std::byte> bytes, const std::string& origin)
      : pickle_(pickle),
        rest_(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
        all_(rest_.size()),
        origin_(origin) {}

  const PickleValue* run() {
    for (;;) {
      at_ = all_ - rest_.size();
      const auto opcode = static_cast<unsigned char>(take(1)[0]);
      if (opcode == '.') return pop();
      step(opcode);
    }
  }

 private:
  template <class... Args>
  [[noreturn]] void reject(const Args&... what) const {
    fail(ExitCode::checkpoint, origin_, ": byte ", at_, " of the pickle: ", what...);
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) reject("it is cut off: ", size, " bytes are needed and ", rest_.size(), " are there");
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view line() {
    const auto end = rest_.find('\n');
    if (end == std::string_view::npos) reject("a name is cut off");
    const std::string_view text = take(end);
    take(1);
    return text;
  }

  PickleValue* make(Kind kind) {
    pickle_.values_.emplace_back().kind = kind;
    return &pickle_.values_.back();
  }
  void push(PickleValue* value) { stack_.push_back(value); }
  void push_integer(std::int64_t number, Kind kind = Kind::integer) {
    PickleValue* value = make(kind);
    value->integer = number;
    push(value);
  }
  void push_text(std::string_view text) {
    PickleValue* value = make(Kind::string);
    value->text = text;
    push(value);
  }
  PickleValue* pop() {
    if (stack_.size() <= floor()) reject("the stack is empty");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() const {
    if (stack_.size() <= floor()) reject("the stack is empty");
    return stack_.back();
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) reject("a mark is missing");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_tuple(std::size_t size) {
    std::vector<const PickleValue*> items(size);
    for (std::size_t i = size; i-- > 0;) items[i] = pop();
    PickleValue* tuple = make(Kind::tuple);
    tuple->items = std::move(items);
    push(tuple);
  }

  void add(Kind kind, std::span<const PickleValue* const> items) {
    PickleValue* container = top();
    if (container->kind != kind) reject("elements are added to ", kind_name(container->kind));
    if (kind == Kind::dict && items.size() % 2 != 0) reject("a key has no value");
    container->items.insert(container->items.end(), items.begin(), items.end());
  }

  void push_global(std::string_view module, std::string_view name) {
    const std::string full = concat(module, " ", name);
    if (std::find(std::begin(allowed_globals), std::end(allowed_globals), full) == std::end(allowed_globals)) {
      reject("it names '", std::string(module.substr(0, 100)), ".", std::string(name.substr(0, 100)),
             "', which a file of tensors does not need; nothing was executed");
    }
    PickleValue* value = make(Kind::global);
    value->text = pickle_.names_.emplace_back(full);
    push(value);
  }

  void call() {
    const PickleValue* arguments = pop();
    const PickleValue* callable = pop();
    if (callable->kind != Kind::global || arguments->kind != Kind::tuple) {
      reject(kind_name(callable->kind), " is called with ", kind_name(arguments->kind));
    }
    if (callable->text == "collections OrderedDict") {
      if (!arguments->items.empty()) reject("an OrderedDict is made with arguments");
      return push(make(Kind::dict));
    }
    PickleValue* object = make(Kind::object);
    object->items = {callable, arguments};
    push(object);
  }

  void remember(std::uint64_t key) { memo_[key] = top(); }
  void recall(std::uint64_t key) {
    const auto it = memo_.find(key);
    if (it == memo_.end()) reject("memo ", key, " was never set");
    push(it->second);
  }

  void push_long(std::uint64_t size) {
    const std::string_view bytes = take(size);
    if (bytes.size() > 8) return push(make(Kind::opaque));
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    if (!bytes.empty() && bytes.size() < 8 && (bytes.back() & 0x80)) bits |= ~std::uint64_t{0} << (8 * bytes.size());
    push_integer(static_cast<std::int64_t>(bits));
  }

  void step(unsigned char opcode) {
    switch (opcode) {
      case 0x80: {  // PROTO
        const auto protocol = number<std::uint8_t>();
        if (protocol < 2 || protocol > 5) reject("protocol ", int{protocol}, " is not 2 to 5");
        return;
      }
      case 0x95:
        number<std::uint64_t>();
        return;  // FRAME
      case '(':
        marks_.push_back(stack_.size());
        return;
      case '}':
        return push(make(Kind::dict));
      case ']':
        return push(make(Kind::list));
      case ')':
        return push(make(Kind::tuple));
      case 0x85:
        return push_tuple(1);
      case 0x86:
        return push_tuple(2);
      case 0x87:
        return push_tuple(3);
      case 't': {
        auto items = pop_to_mark();
        PickleValue* tuple = make(Kind::tuple);
        tuple->items = std::move(items);
        return push(tuple);
      }
      case 'a': {
        const PickleValue* item = pop();
        return add(Kind::list, {&item, 1});
      }
      case 'e': {
        const auto items = pop_to_mark();
        return add(Kind::list, items);
      }
      case 's': {
        const PickleValue* value = pop();
        const PickleValue* pair[] = {pop(), value};
        return add(Kind::dict, pair);
      }
      case 'u': {
        const auto items = pop_to_mark();
        return add(Kind::dict, items);
      }
      case 'N':
        return push(make(Kind::none));
      case 0x88:
        return push_integer(1, Kind::boolean);
      case 0x89:
        return push_integer(0, Kind::boolean);
      case 'J':
        return push_integer(number<std::int32_t>());
      case 'K':
        return push_integer(number<std::uint8_t>());
      case 'M':
        return push_integer(number<std::uint16_t>());
      case 0x8A:
        return push_long(number<std::uint8_t>());
      case 0x8B:
        return push_long(number<std::uint32_t>());
      case 'G': {
        const auto bits = number<std::uint64_t>();
        PickleValue* value = make(Kind::real);
        value->real = std::bit_cast<double>(__builtin_bswap64(bits));
        return push(value);
      }
      case 'X':
      case 'T':
      case 'B':
        return push_text(take(number<std::uint32_t>()));
      case 0x8C:
      case 'U':
      case 'C':
        return push_text(take(number<std::uint8_t>()));
      case 0x8D:
      case 0x8E:
        return push_text(take(number<std::uint64_t>()));
      case 'q':
        return remember(number<std::uint8_t>());
      case 'r':
        return remember(number<std::uint32_t>());
      case 0x94:
        return remember(memo_.size());
      case 'h':
        return recall(number<std::uint8_t>());
      case 'j':
        return recall(number<std::uint32_t>());
      case 'c': {
        const std::string_view module = line(), name = line();
        return push_global(module, name);
      }
      case 0x93: {  // STACK_GLOBAL
        const PickleValue* name = pop();
        const PickleValue* module = pop();
        if (name->kind != Kind::string || module->kind != Kind::string) reject("a global's name is not text");
        return push_global(module->text, name->text);
      }
      case 'R':
        return call();
      case 'b':  // BUILD: attributes of an object or of an OrderedDict, which say nothing about tensors
        pop();
        if (top()->kind != Kind::object && top()->kind != Kind::dict) {
          reject(kind_name(top()->kind), " is given attributes");
        }
        return;
      case 'Q': {
        const PickleValue* id = pop();
        PickleValue* value = make(Kind::persistent);
        value->items = {id};
        return push(value);
      }
      default:
        reject("opcode ", int{opcode}, " is not one that torch.save writes");
    }
  }

  Pickle& pickle_;
  std::string_view rest_;
  std::size_t all_, at_ = 0;
  std::string origin_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& origin) {
  root_ = PickleReader(*this, bytes, origin).run();
}

}  // namespace satformer
