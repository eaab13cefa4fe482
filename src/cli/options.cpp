#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>

#include "base/error.h"
#include "cli/option_table.h"

namespace satformer::cli {

struct Options::Impl {
  CLI::App app;
  std::string overrides_section;
  std::vector<std::string> overrides;
  std::vector<std::string> names, may_be_empty;

  CLI::Option* decorate(CLI::Option* option, bool required) {
    if (required) option->required();
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    return option;
  }
};

Options::Options(const std::string& command, const std::string& summary) : impl_(std::make_unique<Impl>()) {
  impl_->app.name("satformer " + command);
  impl_->app.description(summary);
  impl_->app.option_defaults()->ignore_underscore();
  impl_->app.get_formatter()->column_width(34);
}
Options::~Options() = default;

Options& Options::add(const std::string& names, std::string& value, const std::string& help, bool required) {
  CLI::Option* option = impl_->decorate(impl_->app.add_option(names, value, help), required);
  if (!value.empty()) option->capture_default_str();
  return *this;
}
Options& Options::add_hidden(const std::string& names, std::string& value) {
  impl_->app.add_option(names, value)->group("");
  return *this;
}
namespace {

// CLI11 takes the nearest representable number for one that is too large.
template <class Integer>
std::string whole_number(const std::string& text) {
  Integer value{};
  const std::string_view digits = std::string_view(text).substr(text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) return "'" + text + "' is too large";
  return error == std::errc() && end == digits.data() + digits.size() ? "" : "'" + text + "' is not a whole number";
}

}  // namespace

Options& Options::add(const std::string& names, std::int64_t& value, const std::string& help, bool required) {
  impl_->decorate(impl_->app.add_option(names, value, help), required)
      ->capture_default_str()
      ->check(whole_number<std::int64_t>, "", "");
  return *this;
}
Options& Options::add(const std::string& names, int& value, const std::string& help, bool required) {
  impl_->decorate(impl_->app.add_option(names, value, help), required)
      ->capture_default_str()
      ->check(whole_number<int>, "", "");
  return *this;
}
Options& Options::add(const std::string& names, double& value, const std::string& help, bool required) {
  impl_->decorate(impl_->app.add_option(names, value, help), required)->capture_default_str();
  return *this;
}
Options& Options::add(const std::string& names, std::vector<std::string>& value, const std::string& help,
                      bool required) {
  impl_->decorate(impl_->app.add_option(names, value, help), required);
  return *this;
}
Options& Options::add(const std::string& names, std::optional<std::string>& value, const std::string& help) {
  impl_->decorate(impl_->app.add_option(names, value, help), false);
  return *this;
}
Options& Options::add(const std::string& names, std::optional<std::int64_t>& value, const std::string& help) {
  impl_->decorate(impl_->app.add_option(names, value, help), false)->check(whole_number<std::int64_t>, "", "");
  return *this;
}
Options& Options::add_list(const std::string& names, std::vector<std::string>& value, const std::string& help) {
  impl_->decorate(impl_->app.add_option(names, value, help), false)->allow_extra_args(false)->type_name("A,B");
  return *this;
}
Options& Options::may_be_empty(const std::string& name) {
  impl_->may_be_empty.push_back(name);
  return *this;
}
Options& Options::needs(const std::string& name, const std::string& other) {
  impl_->app.get_option(name)->needs(impl_->app.get_option(other));
  return *this;
}
Options& Options::flag(const std::string& names, bool& value, const std::string& help) {
  impl_->decorate(impl_->app.add_flag(names, value, help), false);
  return *this;
}
Options& Options::allow_overrides(const std::string& section) {
  impl_->overrides_section = section;
  impl_->app.allow_extras();
  return *this;
}
Options& Options::footer(const std::string& text) {
  impl_->app.footer(text);
  return *this;
}

namespace {

// "--batch-size" and "--batch_size" are one option, declared with dashes.
std::string with_dashes(const std::string& argument) {
  if (argument.rfind("--", 0) != 0) return argument;
  const auto end = std::min(argument.find('='), argument.size());
  if (argument.substr(0, end).find('.') != std::string::npos) return argument;
  std::string changed = argument;
  std::replace(changed.begin() + 2, changed.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return changed;
}

}  // namespace

OptionTable Options::table() const {
  OptionTable table{impl_->app.get_name(), impl_->app.get_description(), impl_->app.get_footer(), {}};
  for (const CLI::Option* option : static_cast<const CLI::App&>(impl_->app).get_options()) {
    if (option->get_group().empty()) continue;
    OptionRow row;
    for (const std::string& name : option->get_lnames()) row.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) row.names.push_back("-" + name);
    row.positional = row.names.empty();
    if (row.positional) row.names = {option->get_name(true)};
    if (option->get_expected_max() > 0) row.value = option->get_type_name();
    row.standard = option->get_default_str();
    row.help = option->get_description();
    row.required = option->get_required();
    table.rows.push_back(std::move(row));
  }
  return table;
}

bool Options::parse(std::span<const std::string> arguments) {
  if (std::find(arguments.begin(), arguments.end(), table_request) != arguments.end()) throw table();
  // CLI11 takes the arguments in reverse order.
  std::vector<std::string> reversed;
  for (auto it = arguments.rbegin(); it != arguments.rend(); ++it) reversed.push_back(with_dashes(*it));
  const std::string& name = impl_->app.get_name();
  const auto refuse = [&](const std::string& what) {
    fail(ExitCode::usage, name, ": ", what, " See '", name, " --help'.");
  };
  const auto refuse_unknown = [&](const std::string& argument, const std::string& key) {
    refuse(concat("unknown argument '", argument, "'.", did_you_mean(key, impl_->names)));
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string option = with_dashes(arguments[i]);
    if (option.ends_with('=')) {
      option.pop_back();
    } else if (i + 1 == arguments.size() || !arguments[i + 1].empty()) {
      continue;
    }
    const auto& may = impl_->may_be_empty;
    if (!option.starts_with('-') || std::find(may.begin(), may.end(), option) != may.end()) continue;
    const CLI::Option* known = impl_->app.get_option_no_throw(option);
    if (known && known->get_expected_max() > 0) refuse(concat(option, " is given an empty value."));
  }
  try {
    impl_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << impl_->app.help();
    return false;
  } catch (const CLI::ExtrasError& error) {
    std::string first;
    for (const auto& extra : impl_->app.remaining()) {
      if (first.empty()) first = extra;
    }
    refuse_unknown(first, first.substr(0, first.find('=')));
  } catch (const CLI::RequiredError& error) {
    // The one that is missing may be there under a misspelt name.
    for (const std::string& argument : arguments) {
      const std::string given = with_dashes(argument.substr(0, argument.find('=')));
      if (!given.starts_with("--") || given.size() < 3 || given.find('.') != std::string::npos) continue;
      if (std::find(impl_->names.begin(), impl_->names.end(), given) != impl_->names.end()) continue;
      refuse_unknown(given, given);
    }
    const std::string what = error.what();
    refuse(concat(what.starts_with('-') ? "" : "the argument ", what, "."));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();
    const bool twice = what.find("At Most 1") != std::string::npos || what.find("at most 1") != std::string::npos;
    refuse(twice ? concat(what.substr(0, what.find(':')), " is given more than once.") : what + ".");
  } catch (const CLI::RequiresError& error) {
    refuse(concat(error.what(), ", which is not given."));
  } catch (const CLI::ParseError& error) {
    refuse(std::string(error.what()) + ".");
  }
  const std::vector<std::string> rest = impl_->app.remaining();
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const std::string& argument = rest[i];
    const std::string key = argument.substr(0, argument.find('='));
    const std::string& section = impl_->overrides_section;
    if (!section.empty() && (!argument.starts_with("--" + section + ".") || key == argument)) {
      refuse_unknown(key, key);
    }
    const bool short_name = argument.find('=') != std::string::npos;  // --batch_size=2: the config knows the section
    if (argument.rfind("--", 0) != 0 || (key.find('.') == std::string::npos && !short_name)) {
      const bool value_follows = i + 1 < rest.size() && rest[i + 1].rfind("--", 0) != 0;
      if (argument.rfind("--", 0) == 0 && value_follows) {
        refuse(concat("unknown argument '", argument, "'.", did_you_mean(key, impl_->names),
                      " If it is a configuration field, it is written with '=': ", argument, "=", rest[i + 1], "."));
      }
      const bool field = argument.rfind("--", 0) == 0 && section.empty();
      refuse(concat("unknown argument '", argument, "'.", did_you_mean(key, impl_->names),
                    field ? " A configuration field needs a value: --section.key=VALUE." : ""));
    }
    if (argument.find('=') != std::string::npos) {
      impl_->overrides.push_back(argument.substr(2));
    } else if (i + 1 < rest.size() && rest[i + 1].rfind("--", 0) != 0) {
      impl_->overrides.push_back(argument.substr(2) + "=" + rest[++i]);
    } else {
      refuse(concat("'", argument, "' needs a value: ", argument, "=VALUE."));
    }
  }
  return true;
}

const std::vector<std::string>& Options::overrides() const { return impl_->overrides; }

}  // namespace satformer::cli
