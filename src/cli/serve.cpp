#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/error.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "infer/prompt_lookup.h"
#include "io/file.h"
#include "serve/app.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;

std::string trimmed(std::string text) {
  const char* spaces = " \t\r\n";
  text.erase(text.find_last_not_of(spaces) + 1);
  text.erase(0, std::min(text.find_first_not_of(spaces), text.size()));
  return text;
}

// Lines of a file; a '#' begins a comment line.
std::vector<std::string> read_keys(const std::string& path) {
  std::vector<std::string> keys;
  const std::string text = read_file(path);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = trimmed(text.substr(begin, end - begin));
    if (!line.empty() && line[0] != '#') keys.push_back(line);
    begin = end + 1;
  }
  if (keys.empty()) fail(ExitCode::data, path, ": there is no key in this file");
  return keys;
}

void check_seconds(const char* name, double value) {
  if (!(value > 0 && value <= 86400))
    fail(ExitCode::usage, name, " ", value, " must be more than 0 and at most 86400");
}

void check_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    fail(ExitCode::usage, name, " ", value, " must be at least ", low, " and at most ", high);
  }
}

bool loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

}  // namespace

int run_serve(std::span<const std::string> arguments) {
  ModelOptions model_options;
  serve::HttpOptions http;
  EngineOptions engine_options;
  std::int64_t port = 8000, max_body_mib = 8, max_unsent_mib = 4;
  std::vector<std::string> keys;
  std::string key_file, name, chat_template;
  bool add_bos = false, no_reuse = false;
  Options options("serve",
                  "Serves a model over HTTP: OpenAI's completions and chat, tokenizer, metrics, and a page at /. "
                  "docs/commands/serve.md has every path and field.");
  model_options.add_to(options, true);
  options.add("--host", http.host, "Address to listen on: 127.0.0.1 is this machine alone, 0.0.0.0 everybody")
      .add("--port", port, "Port (0: any free one, told in the first line of output)")
      .add("--api-key", keys, "Key that clients must send; may be given several times, also in SATFORMER_API_KEY")
      .add("--api-key-file", key_file, "File of such keys, one a line")
      .add("--name", name, "Name of the model in answers (default: its folder's)")
      .add("--max-batch", engine_options.max_rows, "Sequences that run at once")
      .add("--max-queue", engine_options.max_waiting, "Sequences that may wait; after that the answer is 429")
      .add("--context", engine_options.max_context, "Longest prompt and answer together (0: the model's context)")
      .add("--chunk", engine_options.chunk_tokens, "Tokens of prompts between two steps of running sequences")
      .add("--speculate", engine_options.speculate,
           "Tokens proposed at most in a step from a sequence's own text, at temperature 0 (0: none)")
      .add("--chat-template", chat_template,
           "plain, chatml, llama3, llama2, zephyr, one of the tokenizer files' by name, or a file in Jinja (default: "
           "the tokenizer files' one, else plain)")
      .flag("--add-bos", add_bos, "Put BOS before prompts given as text")
      .flag("--no-prefix-reuse", no_reuse, "Compute every prompt from its beginning")
      .add("--max-connections", http.max_connections, "Open connections")
      .add("--max-body", max_body_mib, "Largest request body in MiB")
      .add("--max-unsent", max_unsent_mib,
           "MiB of a stream kept for a client that reads slowly; with more it is closed")
      .add("--head-timeout", http.head_seconds, "Seconds for a request's head")
      .add("--idle-timeout", http.idle_seconds, "Seconds that a connection may wait for its next request")
      .add("--body-timeout", http.body_seconds, "Seconds for a request's body")
      .add("--write-timeout", http.write_seconds, "Seconds for a client to take an answer, or a piece of a stream")
      .add("--drain-timeout", http.drain_seconds, "Seconds for running requests after SIGTERM or Ctrl-C");
  if (!options.parse(arguments)) return 0;
  check_range("--port", port, 0, 65535);
  check_range("--max-batch", engine_options.max_rows, 1, 1024);
  check_range("--max-queue", engine_options.max_waiting, 0, 1000000);
  check_range("--context", engine_options.max_context, 0, INT32_MAX);
  check_range("--chunk", engine_options.chunk_tokens, 1, 65536);
  check_speculation(engine_options.speculate);
  check_range("--max-connections", http.max_connections, 1, 100000);
  check_range("--max-body", max_body_mib, 1, 1024);
  check_range("--max-unsent", max_unsent_mib, 1, 1024);
  check_seconds("--head-timeout", http.head_seconds);
  check_seconds("--idle-timeout", http.idle_seconds);
  check_seconds("--body-timeout", http.body_seconds);
  check_seconds("--write-timeout", http.write_seconds);
  check_seconds("--drain-timeout", http.drain_seconds);
  http.port = static_cast<std::uint16_t>(port);
  http.max_body_bytes = static_cast<std::uint64_t>(max_body_mib) << 20;
  http.max_unsent_bytes = static_cast<std::uint64_t>(max_unsent_mib) << 20;
  engine_options.threads = model_options.threads;
  engine_options.reuse_prefixes = !no_reuse;
  if (const char* key = std::getenv("SATFORMER_API_KEY"); key && *key) keys.emplace_back(key);
  if (!key_file.empty()) {
    for (std::string& key : read_keys(key_file)) keys.push_back(std::move(key));
  }
  for (const std::string& key : keys) {
    if (trimmed(key) != key || key.empty())
      fail(ExitCode::usage, "an API key must not be empty or begin or end in space");
  }
  const std::string directory = resolve_model_directory(model_options.model);
  serve::ChatTemplate used_template = serve::ChatTemplate::choose(
      chat_template, serve::read_template_files(serve::template_folder(model_options.tokenizer, directory)));
  if (name.empty()) {
    fs::path path = fs::absolute(model_options.model).lexically_normal();
    if (path.filename().empty()) path = path.parent_path();
    name = path.filename().string();
  }

  // In the order in which they may not outlive one another: requests hold on to the server's sockets.
  serve::App app({keys, name});
  serve::HttpServer server(http, app.handlers());
  app.set_counts(&server.counts());
  std::printf("listening on http://%s:%d\n",
              http.host.find(':') == std::string::npos ? http.host.c_str() : ("[" + http.host + "]").c_str(),
              static_cast<int>(server.port()));
  std::fflush(stdout);
  if (!loopback(http.host) && keys.empty()) {
    std::fprintf(stderr,
                 "satformer: warning: everybody who reaches %s may use this server; --api-key asks for a key\n",
                 http.host.c_str());
  }
  std::atomic<bool> loaded_all{false};
  int signal = 0;
  std::thread thread([&] {
    signal = server.run();
    // A model that is being loaded cannot be stopped, and nothing is lost by leaving.
    if (!loaded_all && signal != 0) std::_Exit(128 + signal);
  });
  const auto stop = [&] {
    server.stop();
    thread.join();
  };
  try {
    const LoadedModel loaded = model_options.load();
    const std::unique_ptr<Tokenizer> tokenizer = model_options.load_tokenizer_for(loaded);
    const serve::TokenText text(*tokenizer, add_bos);
    used_template.complete(text);
    {
      Engine engine(*loaded.model, *tokenizer, engine_options);
      loaded_all = true;
      app.set_ready({engine, text, used_template, loaded.model->architecture(), loaded.model->parameters().count()});
      std::printf("serving %s: %s, context %lld, %lld at once\n", name.c_str(), loaded.model->architecture().c_str(),
                  static_cast<long long>(engine.max_context()), static_cast<long long>(engine_options.max_rows));
      std::fflush(stdout);
      thread.join();
      app.set_stopped();
    }
  } catch (...) {
    if (thread.joinable()) stop();
    throw;
  }
  if (!server.broke_off()) return 0;
  std::fprintf(stderr, "satformer: requests were cut off\n");
  return 128 + signal;
}

}  // namespace satformer::cli
