#include "checkpoint/model_io.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/tensor_io.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

// A tied SATFormer in bfloat16 that torch.save wrote, lm_head.weight included, o_proj as a transposed view. Element i
// of a tensor is i mod 97 - 48 plus the length of the tensor's name mod 7.
const std::string authors_folder = SATFORMER_TEST_DATA "/data/torch/latest";

std::string message(const std::string& path) {
  try {
    load_model(path, at::kCPU);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::checkpoint) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(ModelIo, LoadsWhatTheAuthorsTrainerSaves) {
  const TestFolder run;
  fs::copy(authors_folder, run / "latest");
  for (const std::string& path : {authors_folder, run.path()}) {
    const LoadedModel loaded = load_model(path, at::kCPU);
    EXPECT_EQ(loaded.model->architecture(), "satformer");
    EXPECT_TRUE(loaded.model->config().tie_word_embeddings);
    std::size_t tensors = 0;
    for (const Parameter& p : loaded.model->parameters().list()) {
      const at::Tensor expected =
          at::arange(p.value.numel(), at::kFloat).remainder(97).sub(48).add(static_cast<double>(p.name.size() % 7));
      EXPECT_TRUE(p.value.detach().flatten().equal(expected)) << p.name;
      ++tensors;
    }
    EXPECT_EQ(tensors, 25u);
  }
}

TEST(ModelIo, SavesThemAsItsOwn) {
  const TestFolder folder;
  const LoadedModel loaded = load_model(authors_folder, at::kCPU);
  save_model(*loaded.model, folder.path());
  EXPECT_EQ(weights_path(folder.path()), folder / "model.safetensors");
  const LoadedModel again = load_model(folder.path(), at::kCPU);
  for (const Parameter& p : loaded.model->parameters().list()) {
    EXPECT_TRUE(again.model->parameters().find(p.name)->value.equal(p.value)) << p.name;
  }
}

TEST(ModelIo, ATiedHeadIsStoredOnceAndMustAgree) {
  const TestFolder folder;
  const LoadedModel loaded = load_model(authors_folder, at::kCPU);
  save_model(*loaded.model, folder.path());
  const std::string weights = folder / "model.safetensors";
  // The same tensors with `head` as a second copy.
  const auto write_with_head = [&](const at::Tensor& head) {
    const TestFolder there;
    save_model(*loaded.model, there.path());
    const SafetensorsFile file(there / "model.safetensors");
    std::vector<TensorView> views = file.tensors();
    views.push_back(view_of_tensor("lm_head.weight", head));
    write_safetensors(weights, views);
  };
  EXPECT_EQ(SafetensorsFile(weights).find("lm_head.weight"), nullptr);
  const at::Tensor embedding = loaded.model->parameters().find("model.embeddings.weight")->value.detach();
  write_with_head(embedding.contiguous());
  EXPECT_TRUE(load_model(folder.path(), at::kCPU).model->config().tie_word_embeddings);
  write_with_head(embedding.add(1).contiguous());
  EXPECT_NE(message(folder.path()).find("lm_head.weight differs from model.embeddings.weight"), std::string::npos);

  Json config = read_json_file(folder / "config.json");
  config["tie_word_embeddings"] = false;
  write_file_atomic(folder / "config.json", config.dump());
  const LoadedModel untied = load_model(folder.path(), at::kCPU);
  EXPECT_TRUE(untied.model->parameters().find("lm_head.weight")->value.detach().equal(embedding.add(1)));
  save_model(*loaded.model, folder.path());
  config = read_json_file(folder / "config.json");
  config["tie_word_embeddings"] = false;
  write_file_atomic(folder / "config.json", config.dump());
  EXPECT_NE(message(folder.path()).find("'lm_head.weight' of the satformer model is missing"), std::string::npos);
}

TEST(ModelIo, AFileIsCheckedWithoutItsValues) {
  const TestFolder folder;
  const LoadedModel loaded = load_model(authors_folder, at::kCPU);
  save_model(*loaded.model, folder.path());
  const std::string weights = folder / "model.safetensors";
  const LoadedModel shapes = describe_model(folder.path(), at::Device(at::kMeta));
  EXPECT_NO_THROW(load_weights(*shapes.model, weights));
  EXPECT_NO_THROW(load_weights(*shapes.model, authors_folder + "/pytorch_model.bin"));
  const std::string whole = read_file(weights);
  write_file_atomic(weights, whole.substr(0, whole.size() - 1));
  EXPECT_THROW(load_weights(*shapes.model, weights), Error);
}

TEST(ModelIo, OtherFilesUnderThatNameAreRefused) {
  const TestFolder folder;
  fs::copy(authors_folder, folder.path());
  const std::string weights = folder / "pytorch_model.bin";
  fs::remove(weights);
  EXPECT_NE(message(folder.path()).find("pytorch_model.bin"), std::string::npos);
  write_file_atomic(weights, "not torch's");
  EXPECT_NE(message(folder.path()).find("not a ZIP archive"), std::string::npos);
  write_file_atomic(weights, read_file(SATFORMER_TEST_DATA "/data/torch/malicious.pt"));
  EXPECT_NE(message(folder.path()).find("posix.system"), std::string::npos);
  write_file_atomic(weights, read_file(SATFORMER_TEST_DATA "/data/torch/tensors.bin"));
  EXPECT_NE(message(folder.path()).find("'model.embeddings.weight' of the satformer model is missing"),
            std::string::npos);
  write_file_atomic(weights, read_file(authors_folder + "/pytorch_model.bin"));
  Json config = read_json_file(folder / "config.json");
  config["num_hidden_layers"] = 1;
  write_file_atomic(folder / "config.json", config.dump());
  EXPECT_NE(message(folder.path()).find("'model.layers.1."), std::string::npos);
}

}  // namespace
}  // namespace satformer
