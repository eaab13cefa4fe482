#include "probe/intervention.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace satformer {
namespace {

struct OperationName {
  EditOperation operation;
  const char* name;
};
constexpr OperationName operation_names[] = {
    {EditOperation::zero, "zero"},
    {EditOperation::mean, "mean"},
    {EditOperation::shuffle, "shuffle"},
    {EditOperation::scale, "scale"},
    {EditOperation::clamp, "clamp"},
    {EditOperation::swap, "swap"},
    {EditOperation::lambda1_zero, "lambda1-zero"},
    {EditOperation::lambda1_mean, "lambda1-mean"},
    {EditOperation::dense_own, "dense-own"},
    {EditOperation::mudd_static, "mudd-static"},
    {EditOperation::hyper_static, "hyper-static"},
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// "1-3, 7"
std::string ranges(const std::vector<std::int64_t>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i;
    while (end + 1 < list.size() && list[end + 1] == list[end] + 1) ++end;
    text += concat(text.empty() ? "" : ", ", list[i], end > i ? concat("-", list[end]) : std::string());
    i = end + 1;
  }
  return text;
}

// One edit of a specification, with errors that name both.
class EditParser {
 public:
  EditParser(std::string_view text, const std::string& spec, const EditSpace& space)
      : text_(text), spec_(spec), space_(space) {}

  Edit parse() {
    const auto at = text_.find('@');
    const std::string_view head = text_.substr(0, at);
    const auto equals = head.find('=');
    parse_operation(std::string(head.substr(0, equals)));
    parse_argument(equals == std::string_view::npos ? std::nullopt : std::optional(head.substr(equals + 1)));
    if (at != std::string_view::npos) {
      for (const std::string_view restriction : split(text_.substr(at + 1), ',')) parse_restriction(restriction);
    }
    if (edit_.over == Edit::Over::kind && space_.kinds.empty()) refuse("no kinds of tokens are known here");
    return edit_;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(const Args&... args) const {
    const std::string where =
        text_ == spec_ ? concat("edit '", spec_, "'") : concat("edit '", text_, "' of '", spec_, "'");
    fail(ExitCode::usage, where, ": ", args...);
  }

  void parse_operation(const std::string& name) {
    const std::vector<std::string> known = space_.operations();
    for (const OperationName& candidate : operation_names) {
      if (name != candidate.name) continue;
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        refuse("'", name, "' does not apply to this model; what does: ", join(known));
      }
      edit_.operation = candidate.operation;
      name_ = name;
      return;
    }
    refuse("unknown operation '", name, "', not one of: ", join(known), ".", did_you_mean(name, known));
  }

  void parse_argument(const std::optional<std::string_view>& argument) {
    const auto needed = [&](const char* what) {
      if (!argument || argument->empty()) refuse("'", name_, "' needs ", what);
      return *argument;
    };
    switch (edit_.operation) {
      case EditOperation::mean:
        if (argument) parse_over(std::string(*argument));
        return;
      case EditOperation::shuffle:
        if (argument) edit_.seed = static_cast<std::uint64_t>(integer(*argument, "a seed"));
        return;
      case EditOperation::scale:
        edit_.factor = number(needed("a factor, as in scale=0.5"));
        return;
      case EditOperation::clamp: {
        const auto parts = split(needed("a range, as in clamp=0:0.5"), ':');
        if (parts.size() != 2) refuse("'clamp' needs a range, as in clamp=0:0.5, not '", *argument, "'");
        edit_.low = number(parts[0]);
        edit_.high = number(parts[1]);
        if (edit_.low > edit_.high) refuse("the range ", parts[0], ":", parts[1], " is empty");
        return;
      }
      case EditOperation::swap: {
        const auto parts = split(needed("two heads, as in swap=0:3"), ':');
        if (parts.size() != 2) refuse("'swap' needs two heads, as in swap=0:3, not '", *argument, "'");
        edit_.first_head = head(parts[0]);
        edit_.second_head = head(parts[1]);
        if (edit_.first_head == edit_.second_head) refuse("head ", parts[0], " is exchanged with itself");
        return;
      }
      default:
        if (argument) refuse("'", name_, "' takes no argument, but has '", *argument, "'");
    }
  }

  void parse_over(const std::string& name) {
    const std::vector<std::string> known = {"head", "kind", "overall"};
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      refuse("the mean is taken over one of: ", join(known), ", not '", name, "'.", did_you_mean(name, known));
    }
    edit_.over = static_cast<Edit::Over>(found - known.begin());
  }

  void parse_restriction(std::string_view text) {
    const auto equals = text.find('=');
    const std::string key(text.substr(0, equals));
    std::vector<std::string> known = {"layers"};
    if (edits_gates(edit_.operation)) {
      known.insert(known.end(), {"kinds", "sources"});
      if (edit_.operation != EditOperation::swap) known.insert(known.begin() + 1, "heads");
    }
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      refuse("'", name_, "' is restricted by ", join(known), ", not by '", key, "'.", did_you_mean(key, known));
    }
    if (equals == std::string_view::npos || equals + 1 == text.size())
      refuse("'", key, "' needs a list, as in ", key, "=1/3-5");
    const std::string_view list = text.substr(equals + 1);
    std::vector<std::int64_t>& target = key == "layers"  ? edit_.layers
                                        : key == "heads" ? edit_.heads
                                        : key == "kinds" ? edit_.kinds
                                                         : edit_.sources;
    if (!target.empty()) refuse("'", key, "' is given twice");
    for (const std::string_view item : split(list, '/')) {
      if (key == "kinds") {
        target.push_back(kind(std::string(item)));
      } else {
        add_range(item, key, target);
      }
    }
    std::sort(target.begin(), target.end());
    target.erase(std::unique(target.begin(), target.end()), target.end());
  }

  std::int64_t kind(const std::string& name) const {
    const auto found = std::find(space_.kinds.begin(), space_.kinds.end(), name);
    if (found == space_.kinds.end()) {
      refuse("unknown kind of token '", name, "', not one of: ", space_.kinds.empty() ? "(none)" : join(space_.kinds),
             ".", did_you_mean(name, space_.kinds));
    }
    return found - space_.kinds.begin();
  }

  void add_range(std::string_view item, const std::string& key, std::vector<std::int64_t>& target) const {
    const auto dash = item.find('-', 1);  // "-1" is a number, which is refused as one
    const std::int64_t first = integer(item.substr(0, dash), "a number from 0 or a range"),
                       last = dash == std::string_view::npos ? first
                                                             : integer(item.substr(dash + 1), "the end of a range");
    if (first > last) refuse("the range ", item, " of ", key, " is empty");
    const std::vector<std::int64_t>& layers = editable_layers(space_, edit_.operation);
    for (const std::int64_t end : {first, last}) {
      if (key == "heads" && end >= space_.heads) refuse("no head ", end, ": heads are 0-", space_.heads - 1);
      if (key == "layers" && !std::binary_search(layers.begin(), layers.end(), end)) {
        refuse("'", name_, "' does not apply to layer ", end, ": it does to ", ranges(layers));
      }
      if (key == "sources" && !std::binary_search(space_.sources.begin(), space_.sources.end(), end)) {
        refuse("no gates are on layer ", end, ": those of the model are on ", ranges(space_.sources));
      }
    }
    for (std::int64_t i = first; i <= last; ++i) target.push_back(i);
  }

  std::int64_t head(std::string_view text) const {
    const std::int64_t value = integer(text, "a head");
    if (value >= space_.heads) refuse("no head ", value, ": heads are 0-", space_.heads - 1);
    return value;
  }

  std::int64_t integer(std::string_view text, const char* what) const {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) {
      refuse("'", text, "' is not ", what);
    }
    return value;
  }
  double number(std::string_view text) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      refuse("'", text, "' is not a number");
    }
    return value;
  }

  std::string_view text_;
  const std::string& spec_;
  const EditSpace& space_;
  std::string name_;
  Edit edit_;
};

}  // namespace

const std::vector<std::int64_t>& editable_layers(const EditSpace& space, EditOperation operation) {
  switch (operation) {
    case EditOperation::lambda1_zero:
    case EditOperation::lambda1_mean:
      return space.lambda_layers;
    case EditOperation::dense_own:
      return space.dense_layers;
    case EditOperation::mudd_static:
      return space.mudd_layers;
    case EditOperation::hyper_static:
      return space.hyper_layers;
    default:
      return space.gate_layers;
  }
}

bool edits_gates(EditOperation operation) { return operation <= EditOperation::swap; }

bool Intervention::needs_means() const {
  return std::any_of(edits.begin(), edits.end(), [](const Edit& e) { return e.operation == EditOperation::mean; });
}
bool Intervention::needs_kinds() const {
  return std::any_of(edits.begin(), edits.end(),
                     [](const Edit& e) { return !e.kinds.empty() || e.over == Edit::Over::kind; });
}
bool Intervention::edits_weights() const {
  return std::any_of(edits.begin(), edits.end(), [](const Edit& e) { return !edits_gates(e.operation); });
}

bool EditSpace::empty() const { return operations().empty(); }

std::vector<std::string> EditSpace::operations() const {
  std::vector<std::string> names;
  for (const OperationName& candidate : operation_names) {
    if (!editable_layers(*this, candidate.operation).empty()) names.emplace_back(candidate.name);
  }
  return names;
}

EditSpace edit_space(const Model& model, std::vector<std::string> kinds) {
  const ModelConfig& config = model.config();
  EditSpace space;
  space.num_layers = config.num_hidden_layers;
  space.heads = config.kv_heads();
  space.kinds = std::move(kinds);
  const std::string path = config.effective_value_path();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const auto has = [&](const std::string& name) { return model.parameters().find(name) != nullptr; };
    const bool active = config.value_path_active(layer);
    if (path == "satformer" && active) space.gate_layers.push_back(layer);
    if (path == "resformer" && active) space.lambda_layers.push_back(layer);
    if (has(concat("model.dwa_modules.alphas.", layer, ".weight"))) space.dense_layers.push_back(layer);
    if (has(concat("model.layers.", layer, ".da.w2.weight"))) space.mudd_layers.push_back(layer);
    if (has(concat("model.layers.", layer, ".attn_hc.dynamic_alpha_scale"))) space.hyper_layers.push_back(layer);
  }
  if (!space.gate_layers.empty()) space.sources = config.value_source_layers();
  return space;
}

Intervention parse_intervention(const std::string& spec, const EditSpace& space) {
  if (space.empty()) fail(ExitCode::usage, "edit '", spec, "': this model has no gates or mixing weights to edit");
  Intervention intervention{spec, {}};
  for (const std::string_view text : split(spec, '+'))
    intervention.edits.push_back(EditParser(text, spec, space).parse());
  return intervention;
}

}  // namespace satformer
