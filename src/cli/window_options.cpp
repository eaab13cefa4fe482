#include "cli/window_options.h"

#include <filesystem>

#include "base/error.h"
#include "base/progress.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;

// Ids mean something to the tokenizer alone that made them.
void check_same_tokenizer(const LoadedModel& loaded, const TokenShards& shards, const std::string& data_dir) {
  const std::string of_data = shards.manifest_tokenizer_sha256();
  if (of_data.empty() || !has_tokenizer(loaded.directory)) return;
  const std::string of_model = load_tokenizer(loaded.directory)->sha256();
  if (of_model == of_data) return;
  fail(ExitCode::data, "the shards in '", data_dir, "' were made with another tokenizer (SHA-256 ",
       of_data.substr(0, 12), "...) than the model in '", loaded.directory, "' has (", of_model.substr(0, 12),
       "...)");
}

}  // namespace

void WindowOptions::add_to(Options& options, bool data_required, const char* output_help) {
  options.add("--data-dir,--data,-d", data_dir, "Folder of token shards", data_required)
      .add("--prefix", prefix, "Shards to read: PREFIX*.bin")
      .add("--seq-length", seq_length, "Targets per window (0: as the model was trained)")
      .add("--batch-size,-b", batch_size, "Windows at once")
      .add("--limit", limit, "Only the first N windows (0: all)")
      .add("--output,-o", output, output_help);
}

void WindowOptions::check() const {
  if (batch_size < 1) fail(ExitCode::usage, "--batch-size ", batch_size, " must be at least 1");
  if (limit < 0) fail(ExitCode::usage, "--limit ", limit, " must be at least 0 (0: all windows)");
  if (seq_length < 0) fail(ExitCode::usage, "--seq-length ", seq_length, " must be at least 1 (0: as trained)");
}

std::unique_ptr<AtomicFile> WindowOptions::check_and_open_output() const {
  check();
  return output.empty() ? nullptr : std::make_unique<AtomicFile>(output);
}

TokenWindows WindowOptions::open(const LoadedModel& loaded) const {
  if (data_dir.empty()) fail(ExitCode::usage, "--data-dir is required");
  const ModelConfig& config = loaded.model->config();
  const std::int64_t length = seq_length ? seq_length : trained_seq_length(loaded);
  if (length > config.max_position_embeddings) {
    fail(ExitCode::config, "--seq-length ", length, " is longer than the model's max_position_embeddings of ",
         config.max_position_embeddings);
  }
  const auto shards = std::make_shared<TokenShards>(data_dir, prefix);
  check_same_tokenizer(loaded, *shards, data_dir);
  shards->check_ids(config.vocab_size);
  shards->check_marks(token_kind_names);
  return {shards, length};
}

WindowLossOptions WindowOptions::loss_options(const LoadedModel& loaded, const char* name, bool with_loss,
                                              ProgressLine& progress) const {
  WindowLossOptions options;
  options.batch_size = batch_size;
  options.max_windows = limit;
  options.document_end = trained_document_end(loaded);
  options.progress = [=, &progress](const WindowLoss& r, std::int64_t total) {
    std::string line = concat(name, ": ", r.windows, "/", total, " windows");
    if (with_loss) line += concat(", loss ", r.mean());
    progress.update(line);
    return true;
  };
  return options;
}

}  // namespace satformer::cli
