// The routes of the server: who may ask what, and what is answered.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "infer/engine.h"
#include "serve/chat.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/token_text.h"

namespace satformer::serve {

struct AppOptions {
  std::vector<std::string> api_keys;  // none: everybody may ask
  std::string model_name;
};

// What there is once the model is loaded; all of it outlives the App.
struct LoadedParts {
  Engine& engine;
  const TokenText& text;
  ChatTemplate chat_template;
  std::string architecture;
  std::int64_t parameters = 0;
};

class App {
 public:
  explicit App(AppOptions options);
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  HttpHandlers handlers();                   // valid as long as the App
  void set_ready(const LoadedParts& parts);  // until then all but /health, /metrics and the page is 503
  void set_stopped();                        // work that has not begun is dropped; the parts are not used any more
  void set_counts(const HttpCounts* counts);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace satformer::serve
