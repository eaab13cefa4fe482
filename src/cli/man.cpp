// satformer man: manual pages in the form of man(7), made from the option tables.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/unicode.h"
#include "cli/command.h"
#include "cli/option_table.h"
#include "cli/options.h"
#include "io/file.h"

namespace satformer::cli {
namespace {

// Text as roff prints it: no escapes, no requests at line starts, hyphens that can be copied.
std::string roff(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_line = i == 0 || text[i - 1] == '\n';
    if (starts_line && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string title(const std::string& name) {
  return concat(".TH ", upper(roff(name)), " 1 \"\" \"satformer ", SATFORMER_VERSION, "\" \"satformer manual\"\n");
}

std::string page_name(const std::string& command) { return command.empty() ? "satformer" : "satformer-" + command; }

std::string option_text(const OptionRow& row) {
  std::string names;
  for (const std::string& name : row.names)
    names += concat(names.empty() ? "" : ", ", row.positional ? "\\fI" : "\\fB", roff(name), "\\fR");
  if (!row.value.empty() && !row.positional) names += concat(" \\fI", roff(row.value), "\\fR");
  std::string notes;
  if (row.required) notes = "required";
  if (!row.standard.empty()) notes += concat(notes.empty() ? "" : "; ", "default ", row.standard);
  return concat(".TP\n", names, "\n", roff(row.help), notes.empty() ? "" : concat(" (", roff(notes), ")"), "\n");
}

// Lines of their own, as a footer has them.
std::string lines(const std::string& text) { return concat(".nf\n", roff(text), "\n.fi\n"); }

std::string exit_status() {
  return ".SH EXIT STATUS\n0 when all is done, another number by the kind of error: see \\fBsatformer\\fR(1).\n";
}

std::string command_page(const Command& command) {
  const std::vector<OptionTable> tables = option_tables(command);
  std::string text = concat(title(page_name(command.name)), ".SH NAME\n", roff(page_name(command.name)), " \\- ",
                            roff(command.summary), "\n.SH SYNOPSIS\n");
  for (const OptionTable& table : tables) {
    std::string words;
    for (const OptionRow& row : table.rows) {
      if (row.positional)
        words += concat(row.required ? " \\fI" : " [\\fI", roff(row.names[0]), row.required ? "\\fR" : "\\fR]");
    }
    text += concat(&table == &tables[0] ? "" : ".br\n", "\\fBsatformer ", roff(table.command),
                   "\\fR [\\fIOPTIONS\\fR]", words, "\n");
  }
  for (const OptionTable& table : tables) {
    const bool mode = &table != &tables[0];
    text += concat(mode ? concat(".SH WITH ", upper(roff(table.command.substr(table.command.find(' ') + 1))))
                        : ".SH DESCRIPTION",
                   "\n", roff(table.summary), "\n", mode ? "" : ".SH OPTIONS\n");
    for (const OptionRow& row : table.rows) text += option_text(row);
    if (!table.footer.empty()) text += ".PP\n" + lines(table.footer);
  }
  return text + exit_status() + ".SH SEE ALSO\n\\fBsatformer\\fR(1)\n";
}

struct Status {
  ExitCode code;
  const char* meaning;
};
constexpr Status statuses[] = {
    {ExitCode::ok, "done"},
    {ExitCode::check_failed, "the program worked and the answer is no"},
    {ExitCode::usage, "the command line: unknown command or option, missing argument"},
    {ExitCode::config, "a configuration value or combination"},
    {ExitCode::data, "input text, token shards, tokenizer files"},
    {ExitCode::checkpoint, "a model or training state cannot be used"},
    {ExitCode::system, "the operating system refused: disk full, permission, missing file"},
    {ExitCode::non_finite, "a loss or gradient became NaN or infinite, or spiked too often"},
    {ExitCode::memory, "out of memory"},
    {ExitCode::internal, "a defect of satformer"},
    {ExitCode::out_of_time, "saved and ended before its time was over: to be started again"},
    {ExitCode::interrupted, "stopped by Ctrl-C after saving"},
    {ExitCode::terminated, "stopped by SIGTERM after saving"},
};

std::string main_page() {
  std::string text = title("satformer") +
                     ".SH NAME\nsatformer \\- train, evaluate and take apart decoders that reach back to early "
                     "representations\n.SH SYNOPSIS\n\\fBsatformer\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
                     ".SH COMMANDS\n";
  std::string pages;
  for (const Command& command : commands()) {
    text += concat(".TP\n\\fB", roff(command.name), "\\fR\n", roff(command.summary), "\n");
    pages += concat(pages.empty() ? "" : ",\n", "\\fB", roff(page_name(command.name)), "\\fR(1)");
  }
  text += ".SH EXIT STATUS\nEvery error is one line on standard error.\n";
  for (const Status& status : statuses)
    text += concat(".TP\n", static_cast<int>(status.code), "\n", roff(status.meaning), "\n");
  return text + ".SH SEE ALSO\n" + pages + "\n";
}

std::string manual_page(const std::string& name) {
  if (name.empty()) return main_page();
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command_page(command);
    names.push_back(command.name);
  }
  fail(ExitCode::usage, "no manual page for '", name, "'.", did_you_mean(name, names));
}

}  // namespace

int run_man(std::span<const std::string> arguments) {
  std::string name, folder;
  Options options("man",
                  "A manual page as man(7) text: of a command, or of the program. 'satformer man train | man -l -'.");
  options.add("command", name, "Which command (default: the program)")
      .add("--write", folder, "Write all pages into this folder instead");
  if (!options.parse(arguments)) return 0;
  if (folder.empty()) {
    const std::string page = manual_page(name);
    std::fwrite(page.data(), 1, page.size(), stdout);
    return 0;
  }
  if (!name.empty()) fail(ExitCode::usage, "--write writes every page: leave out '", name, "'");
  make_directories(folder);
  write_file_atomic(folder + "/satformer.1", main_page());
  for (const Command& command : commands())
    write_file_atomic(concat(folder, '/', page_name(command.name), ".1"), command_page(command));
  return 0;
}

}  // namespace satformer::cli
