#include "train/run_data.h"

#include <nlohmann/json.hpp>

#include "data/authors_order.h"
#include "data/synthetic/windows.h"
#include "io/shards.h"

namespace satformer {
namespace {

std::shared_ptr<const TokenWindows> open_shards(const RunConfig& config, const std::string& prefix,
                                                const Tokenizer* tokenizer, RunData& data) {
  const auto shards = std::make_shared<TokenShards>(config.data.data_dir, prefix);
  const auto windows = std::make_shared<TokenWindows>(shards, config.data.seq_length);
  const std::string hash = shards->manifest_tokenizer_sha256();
  if (tokenizer && !hash.empty() && hash != tokenizer->sha256()) {
    fail(ExitCode::data, "the shards in '", config.data.data_dir, "' were made with another tokenizer (SHA-256 ",
         hash.substr(0, 12), "...) than tokenizer.name_or_path names (", tokenizer->sha256().substr(0, 12), "...)");
  }
  data.text = shards->example_tokens() == 0 || !hash.empty();  // `prepare --synthetic` names the tokenizer of text
  return windows;
}

void open_generator(const RunConfig& config, const Tokenizer* tokenizer, RunData& data) {
  const SyntheticOptions& options = config.data.synthetic;
  const SyntheticTask& task = synthetic_task(options);
  if (task.text && !tokenizer) {
    fail(ExitCode::config, "data.synthetic.task = '", task.name,
         "' is text: tokenizer.name_or_path must name a tokenizer on this machine");
  }
  data.train = std::make_shared<SyntheticWindows>(options, tokenizer, training_examples, options.examples);
  data.validation = std::make_shared<SyntheticWindows>(options, tokenizer, validation_examples, options.val_examples);
  data.text = task.text;
  data.generator = synthetic_settings(options, tokenizer).dump();
}

std::string check_shards(const RunConfig& config, const std::string& prefix) {
  const TokenShards shards(config.data.data_dir, prefix);
  shards.check_ids(config.model.config.vocab_size);
  shards.check_marks(token_kind_names);
  return shards.verify_contents();
}

}  // namespace

bool data_is_text(const RunConfig& config) {
  return !config.data.synthetic.task || synthetic_task(config.data.synthetic).text;
}

RunData open_run_data(const RunConfig& config, const Tokenizer* tokenizer) {
  RunData data;
  const auto seed = static_cast<std::uint64_t>(config.system.seed);
  if (config.data.synthetic.task) {
    open_generator(config, tokenizer, data);
  } else {
    const auto train = open_shards(config, config.data.train_prefix, tokenizer, data);
    data.train = train;
    data.validation = open_shards(config, config.data.val_prefix, tokenizer, data);
    if (config.data.order == authors_order) {
      data.order = std::make_shared<AuthorsOrder>(
          train,
          AuthorsOrderOptions{seed, config.training.batch_size, config.data.order_ranks, config.data.order_workers});
    }
  }
  if (!data.order) data.order = std::make_shared<DataOrder>(data.train->size(), seed);
  const std::string& where = config.data.data_dir;
  if (config.data.targets == "marked" && !(data.train->has_marks() && data.validation->has_marks())) {
    fail(ExitCode::data, "data.targets = 'marked', but the shards in '", where,
         "' have no marks of the targets that count (`prepare --synthetic` makes such)");
  }
  if (config.training.target_accuracy && !data.validation->has_marks()) {
    fail(ExitCode::data, "training.target_accuracy is set, but the validation shards in '", where,
         "' have no marks of the targets that count (`prepare --synthetic` makes such)");
  }
  data.marked = data.train->has_marks() && data.validation->has_marks() && config.data.targets != "all";
  return data;
}

std::string check_run_data(const RunConfig& config) {
  if (config.data.synthetic.task) return {};
  const std::string sha256 = check_shards(config, config.data.train_prefix);
  check_shards(config, config.data.val_prefix);
  return sha256;
}

}  // namespace satformer
