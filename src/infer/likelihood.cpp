#include "infer/likelihood.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace satformer {
namespace {

// Shorter common beginnings are not worth a pass of their own.
constexpr std::int64_t min_shared_tokens = 8;

struct Row {
  std::vector<std::int64_t> tokens;  // the input and the last target
  std::int64_t scored = 0;           // its last tokens
  std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()) - 1; }
};

struct Group {
  std::size_t index = 0;
  std::vector<Row> rows;
  std::int64_t shared = 0;   // tokens computed once for all rows
  std::int64_t longest = 0;  // of the inputs
};

Row make_row(const LikelihoodRequest& request, std::int64_t max_length) {
  Row row;
  row.tokens = request.context;
  row.tokens.insert(row.tokens.end(), request.continuation.begin(), request.continuation.end());
  const auto kept = std::min<std::size_t>(row.tokens.size(), static_cast<std::size_t>(max_length) + 1);
  row.tokens.erase(row.tokens.begin(), row.tokens.end() - static_cast<std::ptrdiff_t>(kept));
  row.scored = static_cast<std::int64_t>(request.continuation.size());
  return row;
}

std::int64_t shared_length(const std::vector<Row>& rows) {
  if (rows.size() < 2) return 0;
  const Row& first = rows.front();
  std::int64_t shared = first.length();
  for (const Row& row : rows) {
    shared = std::min(shared, row.length() - row.scored);  // whose last token predicts the first scored one
    const auto end = std::mismatch(first.tokens.begin(), first.tokens.begin() + shared, row.tokens.begin());
    shared = end.first - first.tokens.begin();
  }
  return shared < min_shared_tokens ? 0 : shared;
}

class Scorer {
 public:
  Scorer(Model& model, const LikelihoodOptions& options)
      : model_(model), options_(options), device_(model.parameters().device()) {}

  bool run(std::vector<Group>& groups) {
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group& a, const Group& b) { return a.longest > b.longest; });
    for (std::size_t begin = 0; begin < groups.size();) {
      std::size_t end = begin;
      std::int64_t rows = 0, shared = 0, rest = 0;
      for (; end < groups.size(); ++end) {
        const Group& g = groups[end];
        const std::int64_t count = rows + static_cast<std::int64_t>(g.rows.size());
        const std::int64_t s = std::max(shared, g.shared), r = std::max(rest, g.longest - g.shared);
        const bool fits = count <= options_.batch_size && s + r <= model_.config().max_position_embeddings;
        if (end > begin && !fits) break;
        rows = count;
        shared = s;
        rest = r;
      }
      if (!score({groups.data() + begin, end - begin}, shared)) return false;
      begin = end;
    }
    return true;
  }

 private:
  struct RowRef {
    const Row* row;
    std::int64_t group, shared;
  };

  bool score(std::span<const Group> groups, std::int64_t shared) {
    std::vector<RowRef> rows;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const Row& row : groups[g].rows) rows.push_back({&row, static_cast<std::int64_t>(g), groups[g].shared});
    }
    std::optional<KvCache> cache;
    if (shared > 0) cache = compute_shared(groups, shared);
    std::vector<Likelihood> results;
    for (std::size_t begin = 0; begin < rows.size();) {
      const auto count = std::min<std::size_t>(rows.size() - begin, static_cast<std::size_t>(options_.batch_size));
      score_rows({rows.data() + begin, count}, cache ? &*cache : nullptr, results);
      begin += count;
    }
    std::size_t at = 0;
    for (const Group& group : groups) {
      const std::span<const Likelihood> own{results.data() + at, group.rows.size()};
      at += group.rows.size();
      if (options_.done && !options_.done(group.index, own)) return false;
    }
    return true;
  }

  // Pads stand on the left, so that every row goes on in the slot after its last token.
  KvCache compute_shared(std::span<const Group> groups, std::int64_t shared) {
    std::int64_t rest = 0;
    for (const Group& group : groups) rest = std::max(rest, group.longest - group.shared);
    const auto rows = static_cast<std::int64_t>(groups.size());
    const at::Tensor ids = at::zeros({rows, shared}, at::kLong), mask = at::zeros({rows, shared}, at::kLong);
    for (std::int64_t r = 0; r < rows; ++r) {
      const Group& group = groups[static_cast<std::size_t>(r)];
      const std::int64_t pad = shared - group.shared;
      std::copy_n(group.rows.front().tokens.begin(), group.shared,
                  ids.mutable_data_ptr<std::int64_t>() + r * shared + pad);
      std::fill_n(mask.mutable_data_ptr<std::int64_t>() + r * shared + pad, group.shared, 1);
    }
    KvCache cache(model_.config(), rows, shared + rest, model_.compute_dtype(), device_);
    ForwardOptions forward;
    forward.observer = options_.observer;
    forward.cache = &cache;
    forward.attention_mask_BT = mask.to(device_);
    model_.hidden(ids.to(device_), forward);
    return cache;
  }

  // The rows after their shared tokens, padded on the right.
  void score_rows(std::span<const RowRef> rows, const KvCache* shared, std::vector<Likelihood>& results) {
    std::int64_t T = 0;
    for (const RowRef& r : rows) T = std::max(T, r.row->length() - r.shared);
    const auto B = static_cast<std::int64_t>(rows.size());
    const at::Tensor ids = at::zeros({B, T}, at::kLong), mask = at::zeros({B, T}, at::kLong),
                     targets = at::full({B, T}, ignore_index, at::kLong), source = at::empty({B}, at::kLong);
    for (std::int64_t b = 0; b < B; ++b) {
      const RowRef& r = rows[static_cast<std::size_t>(b)];
      const std::int64_t length = r.row->length() - r.shared, first = length - r.row->scored;
      const auto begin = r.row->tokens.begin() + r.shared;
      std::copy_n(begin, length, ids.mutable_data_ptr<std::int64_t>() + b * T);
      std::fill_n(mask.mutable_data_ptr<std::int64_t>() + b * T, length, 1);
      std::copy_n(begin + first + 1, r.row->scored, targets.mutable_data_ptr<std::int64_t>() + b * T + first);
      source.mutable_data_ptr<std::int64_t>()[b] = r.group;
    }
    ForwardOptions forward;
    forward.observer = options_.observer;
    std::optional<KvCache> cache;
    if (shared) {
      cache = *shared;  // select_rows makes tensors of its own
      cache->select_rows(source.to(device_));
      forward.cache = &*cache;
      forward.attention_mask_BT = mask.to(device_);
    }  // without a cache no token sees the pads after it
    at::Tensor greedy;
    const at::Tensor losses = model_.losses(ids.to(device_), targets.to(device_), forward, &greedy).cpu();
    greedy = greedy.cpu().contiguous();
    const float* loss = losses.contiguous().const_data_ptr<float>();
    const bool* hit = greedy.const_data_ptr<bool>();
    for (std::int64_t b = 0; b < B; ++b) {
      const RowRef& r = rows[static_cast<std::size_t>(b)];
      const std::int64_t length = r.row->length() - r.shared;
      Likelihood result;
      for (std::int64_t t = length - r.row->scored; t < length; ++t) {
        result.sum -= static_cast<double>(loss[b * T + t]);
        result.greedy = result.greedy && hit[b * T + t];
      }
      if (!std::isfinite(result.sum)) fail(ExitCode::non_finite, "the model's log-likelihood is not finite");
      results.push_back(result);
    }
  }

  Model& model_;
  const LikelihoodOptions& options_;
  at::Device device_;
};

}  // namespace

void check_request(const LikelihoodRequest& request, std::int64_t max_length, std::int64_t vocab_size) {
  if (request.context.empty()) fail(ExitCode::data, "the context has no token");
  if (request.continuation.empty()) fail(ExitCode::data, "the continuation has no token");
  if (static_cast<std::int64_t>(request.continuation.size()) > max_length) {
    fail(ExitCode::data, "the continuation has ", request.continuation.size(), " tokens, more than the context of ",
         max_length);
  }
  for (const auto* ids : {&request.context, &request.continuation}) {
    for (const std::int64_t id : *ids) {
      if (id < 0 || id >= vocab_size) {
        fail(ExitCode::data, "token id ", id, " is outside the vocabulary of ", vocab_size);
      }
    }
  }
}

void score_groups(Model& model, std::span<const std::vector<LikelihoodRequest>> groups,
                  const LikelihoodOptions& options) {
  at::NoGradGuard no_grad;
  const std::int64_t context = model.config().max_position_embeddings;
  const std::int64_t max_length = options.max_length > 0 ? std::min(options.max_length, context) : context;
  std::vector<Group> sharing, plain;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Group group;
    group.index = i;
    for (const LikelihoodRequest& request : groups[i]) {
      check_request(request, max_length, model.config().vocab_size);
      group.rows.push_back(make_row(request, max_length));
      group.longest = std::max(group.longest, group.rows.back().length());
    }
    group.shared = shared_length(group.rows);
    (group.shared > 0 ? sharing : plain).push_back(std::move(group));
  }
  Scorer scorer(model, options);
  if (scorer.run(sharing)) scorer.run(plain);
}

std::vector<Likelihood> score_requests(Model& model, std::span<const LikelihoodRequest> requests,
                                       LikelihoodOptions options) {
  std::vector<std::vector<LikelihoodRequest>> groups;
  for (const LikelihoodRequest& request : requests) groups.push_back({request});
  std::vector<Likelihood> results(requests.size());
  options.done = [&](std::size_t group, std::span<const Likelihood> own) {
    results[group] = own.front();
    return true;
  };
  score_groups(model, groups, options);
  return results;
}

}  // namespace satformer
