// The commands of the program, one file each; the list is in commands.cpp.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace satformer::cli {

struct Command {
  std::string name;
  std::string summary;                                 // one line of `satformer --help`
  int (*run)(std::span<const std::string> arguments);  // arguments after the command's name; returns the exit code
  bool computes = false;                               // runs a model: worth the start described in spin.h
  std::vector<std::string> modes = {};                 // arguments with which it takes other options: "--tasks"
};
const std::vector<Command>& commands();

int run_analyze(std::span<const std::string> arguments);
int run_bench(std::span<const std::string> arguments);
int run_prepare(std::span<const std::string> arguments);
int run_train(std::span<const std::string> arguments);
int run_completion(std::span<const std::string> arguments);
int run_compare(std::span<const std::string> arguments);
int run_checkpoint(std::span<const std::string> arguments);
int run_eval(std::span<const std::string> arguments);
int run_export(std::span<const std::string> arguments);
int run_generate(std::span<const std::string> arguments);
int run_gates(std::span<const std::string> arguments);
int run_import(std::span<const std::string> arguments);
int run_info(std::span<const std::string> arguments);
int run_man(std::span<const std::string> arguments);
int run_retrofit(std::span<const std::string> arguments);
int run_runs(std::span<const std::string> arguments);
int run_score(std::span<const std::string> arguments);
int run_serve(std::span<const std::string> arguments);
int run_tokenize(std::span<const std::string> arguments);
int run_verify(std::span<const std::string> arguments);

}  // namespace satformer::cli
