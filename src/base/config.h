// Configuration from one description of each field. A section lists its fields once, in visit(); JSON reading and
// writing, environment variables, command-line overrides, help and error messages all come from that list.
//
// Sources, weakest first: defaults, --config file, SATFORMER_<SECTION>__<KEY> environment, --section.key=value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"

namespace satformer {

// A number, "auto" (derived from other fields) or null (a default that the field's help names).
struct NumberOrAuto {
  std::optional<double> number;
  bool automatic = false;
};

using FieldPointer =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::optional<std::int64_t>*, std::optional<double>*,
                 std::optional<std::string>*, std::vector<std::int64_t>*, NumberOrAuto*>;

// Bounds and documentation of a field. `min`/`max` are inclusive unless `open_min`.
struct FieldRules {
  std::optional<double> min = {};
  std::optional<double> max = {};
  bool open_min = false, open_max = false;
  std::vector<std::string> choices = {};
  bool unused = false;  // accepted for compatibility, has no effect here, listed as such
};

struct Field {
  std::string path;  // dotted: "training.batch_size"
  std::string help;
  FieldPointer value;
  FieldRules rules;
};

// Collects the fields of nested sections.
class FieldVisitor {
 public:
  void section(std::string_view name, auto& object) {
    const std::string before = prefix_;
    prefix_ += std::string(name) + ".";
    object.visit(*this);
    prefix_ = before;
  }
  void field(std::string_view name, FieldPointer value, std::string_view help, FieldRules rules = {}) {
    fields_.push_back({prefix_ + std::string(name), std::string(help), value, std::move(rules)});
  }
  const std::vector<Field>& fields() const { return fields_; }

 private:
  std::string prefix_;
  std::vector<Field> fields_;
};

// A set of fields bound to a live object (which must outlive it), with the origin of every value.
class ConfigBinding {
 public:
  template <class T>
  explicit ConfigBinding(T& object) {
    FieldVisitor visitor;
    object.visit(visitor);
    fields_ = visitor.fields();
  }

  // Applies a nested JSON object. Unknown keys, wrong types and values out of bounds throw Error(config) naming
  // `origin`.
  void apply_json(const Json& json, const std::string& origin, const std::string& prefix = "");
  // Applies the SATFORMER_ environment. `environment` is environ-like ("NAME=value" entries).
  void apply_environment(const std::vector<std::string>& environment);
  // Applies one "section.key=value" (value as JSON, or a bare string). The last component alone is enough where
  // unique.
  void apply_override(std::string_view assignment);

  // Gives a field that no source has set a value that follows from other settings; `origin` says which. True if it
  // was applied.
  bool imply(const std::string& path, const Json& value, const std::string& origin);

  Json to_json() const;                               // nested, every field
  std::string origin(const std::string& path) const;  // "default" or the source's name
  const std::vector<Field>& fields() const { return fields_; }
  std::vector<std::string> unused() const;  // fields given by some source that have no effect here

  // Text for --help and for "--show-config": one line a field.
  std::string describe() const;
  std::string show() const;

  const Field* find(const std::string& path) const;  // null if there is none

 private:
  void set(const Field& field, const Json& value, const std::string& origin);
  std::vector<std::string> paths() const;
  std::string suggest(const std::string& path) const;
  bool names_section(const std::string& variable) const;

  std::vector<Field> fields_;
  std::map<std::string, std::string> origins_;
};

// The JSON value of a field as it stands.
Json field_value(const Field& field);

}  // namespace satformer
