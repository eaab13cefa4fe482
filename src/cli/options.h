// Command-line options of one command: a thin front of CLI11, so that commands compile without it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace satformer::cli {

struct OptionTable;

class Options {
 public:
  Options(const std::string& command, const std::string& summary);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  // `names` as CLI11 writes them: "--batch-size,-b" or "inputs" for a positional. '_' and '-' are the same in names.
  Options& add(const std::string& names, std::string& value, const std::string& help, bool required = false);
  Options& add(const std::string& names, std::int64_t& value, const std::string& help, bool required = false);
  Options& add(const std::string& names, int& value, const std::string& help, bool required = false);
  Options& add(const std::string& names, double& value, const std::string& help, bool required = false);
  Options& add(const std::string& names, std::vector<std::string>& value, const std::string& help,
               bool required = false);
  // One argument each time the option is given, names between commas.
  Options& add_list(const std::string& names, std::vector<std::string>& value, const std::string& help);
  Options& add(const std::string& names, std::optional<std::string>& value, const std::string& help);
  Options& add(const std::string& names, std::optional<std::int64_t>& value, const std::string& help);
  // "--name ''" is refused, as an empty text mostly stands for none, unless this says that it means something.
  Options& may_be_empty(const std::string& name);
  // `name` means nothing without `other`: given alone it is refused, and --help says so.
  Options& needs(const std::string& name, const std::string& other);
  // Taken, but shown nowhere: for the program's own use.
  Options& add_hidden(const std::string& names, std::string& value);
  Options& flag(const std::string& names, bool& value, const std::string& help);
  // Unknown "--section.key=value" and "--section.key value" arguments are kept for overrides() instead of refused.
  // With a section, those of that section alone, and only with '='.
  Options& allow_overrides(const std::string& section = {});
  // Text after the list of options in --help.
  Options& footer(const std::string& text);

  // What --help would say, as data; parse() throws it for table_request.
  OptionTable table() const;
  // False: --help was printed and the command should return 0. Bad arguments throw Error(usage) naming the nearest
  // option.
  bool parse(std::span<const std::string> arguments);
  const std::vector<std::string>& overrides() const;  // "section.key=value"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace satformer::cli
