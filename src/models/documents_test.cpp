// With ForwardOptions::document_end each document of a row gets what it gets alone.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include "models/test_models.h"

namespace satformer {
namespace {

constexpr std::int64_t end_id = 2;

at::Tensor document(std::int64_t length, std::int64_t row) {
  at::Tensor ids = testing::random_ids(row + 1, length).select(0, row).unsqueeze(0).clone();
  ids.masked_fill_(ids.eq(end_id), end_id + 1);
  ids.select(1, length - 1).fill_(end_id);
  return ids;
}

void check(const std::string& name, const ModelConfig& config) {
  SCOPED_TRACE(name);
  const auto model = make_decoder("test", config, at::Device(c10::DeviceType::CPU));
  testing::randomise(*model);
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> lengths = {4, 1, 6};
  std::vector<at::Tensor> documents;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    documents.push_back(document(lengths[i], static_cast<std::int64_t>(i)));
  // A second row whose documents lie elsewhere.
  const at::Tensor ids = at::cat({at::cat(documents, 1), at::cat({documents[2], documents[0], documents[1]}, 1)}, 0);
  ForwardOptions options;
  options.document_end = end_id;
  const at::Tensor together = model->logits(ids, options);
  const auto expect_alone = [&](std::int64_t row, std::int64_t from, const at::Tensor& alone_ids) {
    const at::Tensor alone = model->logits(alone_ids, {});
    const at::Tensor part = together.narrow(0, row, 1).narrow(1, from, alone_ids.size(1));
    EXPECT_LT((part - alone).abs().max().item<double>(), 2e-5) << "row " << row << " from " << from;
  };
  expect_alone(0, 0, documents[0]);
  expect_alone(0, 4, documents[1]);
  expect_alone(0, 5, documents[2]);
  expect_alone(1, 6, documents[0]);
  EXPECT_GT((model->logits(ids, {}) - together).abs().max().item<double>(), 1e-3);
}

TEST(Documents, EveryValuePathTellsThemApart) {
  for (const auto& variant : testing::value_variants()) {
    ModelConfig config = testing::small_config("plain", variant.part);
    variant.set(config);
    check(variant.name, config);
  }
}

TEST(Documents, EveryRoutingTellsThemApart) {
  for (const char* routing : {"plain", "dense", "mudd", "hyper"})
    check(routing, testing::small_config(routing, "satformer"));
}

}  // namespace
}  // namespace satformer
