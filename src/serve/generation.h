// Runs a generation request on the engine and answers it, whole or as a stream of server-sent events.
#pragma once

#include <memory>
#include <string>

#include "infer/engine.h"
#include "serve/generation_request.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/token_text.h"
#include "serve/workers.h"

namespace satformer::serve {

// What a generation needs; all of it outlives every request.
struct GenerationContext {
  Engine& engine;
  const TokenText& text;
  Workers& workers;
  Metrics& metrics;
  std::string model_name;
};

// ApiError(429) if the queue is full. Otherwise the exchange is answered later, and a client that leaves cancels its
// sequences.
void start_generation(const GenerationContext& context, GenerationRequest request,
                      const std::shared_ptr<HttpExchange>& exchange);

}  // namespace satformer::serve
