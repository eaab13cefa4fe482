// The body of a request to the server: /v1/completions (first byte even) or chat, with one of its templates. What is
// read must be within the model's bounds; what is refused must be a 400 in JSON.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "infer/engine.h"
#include "io/tokenizer.h"
#include "memory_file.h"
#include "serve/generation_request.h"

// An engine that computes nothing, in place of the one that needs libtorch.
namespace satformer {
struct Engine::Impl {};
Engine::Engine(Model&, const Tokenizer&, const EngineOptions&) {}
Engine::~Engine() = default;
std::int64_t Engine::vocab_size() const { return 259; }
std::int64_t Engine::max_context() const { return 512; }
void Engine::check(const EngineTask& task) const {
  if (task.prompt.empty()) fail(ExitCode::usage, "the prompt is empty");
  if (std::ssize(task.prompt) + task.max_new_tokens > max_context()) fail(ExitCode::config, "too long");
}
class Model {};
}  // namespace satformer

namespace {

using namespace satformer;

struct Place {
  std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  Model model;
  Engine engine{model, *tokenizer, {}};
  serve::TokenText text{*tokenizer, true};
  std::vector<serve::ChatTemplate> templates;
  Place() {
    for (const std::string& name : serve::ChatTemplate::names())
      templates.push_back(serve::ChatTemplate::choose(name, {}));
    serve::TemplateFiles files;
    files.sources.push_back(
        {"default",
         "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{{ m.tool_calls | "
         "default('') }}{{ m.name }}</s>{% endfor %}{{ tools | tojson }}{{ enable_thinking }}",
         "template"});
    templates.push_back(serve::ChatTemplate::choose("", files));
    templates.back().complete(text);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Place place;
  if (size == 0) return 0;
  const std::string body(fuzzing::text_of(data + 1, size - 1));
  try {
    const Json json = serve::parse_body(body);
    const serve::GenerationRequest request =
        data[0] % 2 == 0
            ? serve::read_completion(json, place.engine, place.text)
            : serve::read_chat(json, place.engine, place.text, place.templates[data[0] / 2 % place.templates.size()]);
    if (request.n < 1 || request.prompts.empty() || request.task.stop.size() > 70) __builtin_trap();
    for (const auto& prompt : request.prompts) {
      for (const std::int64_t id : prompt) {
        if (id < 0 || id >= 259) __builtin_trap();
      }
    }
    if (std::ssize(request.tasks()) != std::ssize(request.prompts) * request.n) __builtin_trap();
  } catch (const serve::ApiError& error) {
    const serve::HttpReply reply = error.reply();
    if (reply.status != 400 || !Json::parse(reply.body).contains("error")) __builtin_trap();
  }
  return 0;
}
