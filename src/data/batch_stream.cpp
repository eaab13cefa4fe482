#include "data/batch_stream.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace satformer {
namespace {

// Batches of each rank between two exchanges: about 2 MB of text, so that ranks seldom wait for one another.
constexpr std::int64_t batches_of_exchange = 8;
constexpr const char* stop_text = "stop";

int worker_count(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::min(std::max(1u, std::thread::hardware_concurrency()), 256u));
}

// One line of JSON, then the ids of all batches as they are in memory: ranks are of one kind of machine.
std::string packed(const std::vector<TokenBatch>& batches, std::int64_t in_all) {
  Json header = {{"in_all", in_all}, {"batches", Json::array()}};
  std::size_t ids = 0;
  for (const TokenBatch& b : batches) {
    Json json = {
        {"ids", b.ids.size()},          {"empty_documents", b.empty_documents}, {"bad_lines", b.bad_lines},
        {"sampled_out", b.sampled_out}, {"replaced_bytes", b.replaced_bytes},   {"disk_position", b.disk_position},
        {"parts", Json::array()}};
    for (const TokenBatch::Part& p : b.parts) json["parts"].push_back({p.ids, p.bytes, p.ends_document, p.sha256});
    if (b.error) {
      try {
        std::rethrow_exception(b.error);
      } catch (const Error& error) {
        json["error"] = {static_cast<int>(error.code()), error.what()};
      }
    }
    header["batches"].push_back(std::move(json));
    ids += b.ids.size();
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::size_t at = text.size();
  text.resize(at + ids * sizeof(std::int32_t));
  for (const TokenBatch& b : batches) {
    std::memcpy(text.data() + at, b.ids.data(), b.ids.size() * sizeof(std::int32_t));
    at += b.ids.size() * sizeof(std::int32_t);
  }
  return text;
}

std::deque<TokenBatch> unpacked(const std::string& text, std::int64_t in_all) {
  std::size_t at = text.find('\n') + 1;
  const Json header = parse_json(std::string_view(text).substr(0, at), "batches of a rank", ExitCode::internal);
  if (header.at("in_all") != in_all) {
    fail(ExitCode::data, "prepare: the ranks read different inputs: a stretch of ", in_all,
         " batches here is one of ", header.at("in_all").dump(), " on another");
  }
  std::deque<TokenBatch> batches;
  for (const Json& json : header.at("batches")) {
    TokenBatch b;
    b.ids.resize(json.at("ids").get<std::size_t>());
    std::memcpy(b.ids.data(), text.data() + at, b.ids.size() * sizeof(std::int32_t));
    at += b.ids.size() * sizeof(std::int32_t);
    b.empty_documents = json.at("empty_documents");
    b.bad_lines = json.at("bad_lines");
    b.sampled_out = json.at("sampled_out");
    b.replaced_bytes = json.at("replaced_bytes");
    b.disk_position = json.at("disk_position");
    for (const Json& part : json.at("parts")) b.parts.push_back({part[0], part[1], part[2], part[3]});
    if (const auto error = json.find("error"); error != json.end()) {
      b.error = std::make_exception_ptr(
          Error(static_cast<ExitCode>(error->at(0).get<int>()), error->at(1).get<std::string>()));
    }
    batches.push_back(std::move(b));
  }
  return batches;
}

}  // namespace

BatchStream::BatchStream(const std::vector<TextInput>& inputs, const DocumentRules& documents,
                         const TokenizeRules& rules, int workers, const PrepareRanks& ranks)
    : ranks_(ranks),
      reader_(inputs, documents),
      pipeline_(
          [this](Item& item) {
            item.own = read_++ % ranks_.size == ranks_.rank;
            return reader_.next(item.text);
          },
          [&inputs, rules](Item& item) {
            return item.own ? tokenize(item.text, inputs[item.text.input].path, rules) : TokenBatch{};
          },
          worker_count(workers)) {}

std::optional<TokenBatch> BatchStream::next() {
  if (ranks_.size == 1) return pipeline_.pop();
  if (ready_.empty() && !ended_) exchange();
  if (ready_.empty()) {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return std::nullopt;
  }
  TokenBatch batch = std::move(ready_.front());
  ready_.pop_front();
  return batch;
}

void BatchStream::exchange() {
  const std::int64_t most = batches_of_exchange * ranks_.size;
  std::vector<TokenBatch> own;
  std::int64_t in_all = 0;
  for (; in_all < most && !ended_; ++in_all) {
    std::optional<TokenBatch> batch;
    try {
      batch = pipeline_.pop();
    } catch (...) {
      error_ = std::current_exception();
    }
    ended_ = !batch;
    if (ended_) break;
    if (in_all % ranks_.size == ranks_.rank) own.push_back(std::move(*batch));
  }
  std::vector<std::deque<TokenBatch>> of_ranks;
  for (const std::string& text : ranks_.exchange(packed(own, in_all))) {
    if (text == stop_text) {
      ended_ = true;
      error_ = nullptr;
      return;
    }
    of_ranks.push_back(unpacked(text, in_all));
  }
  for (std::int64_t i = 0; i < in_all; ++i) {
    auto& batches = of_ranks[static_cast<std::size_t>(i % ranks_.size)];
    ready_.push_back(std::move(batches.front()));
    batches.pop_front();
  }
}

void BatchStream::stop() {
  ready_.clear();
  error_ = nullptr;
  if (ranks_.size > 1 && !ended_) ranks_.exchange(stop_text);
  ended_ = true;
}

}  // namespace satformer
