#include "data/sample.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "base/random.h"
#include "data/tokenize.h"

namespace satformer {

std::vector<std::string> sample_texts(const std::vector<TextInput>& inputs, const DocumentRules& rules,
                                      const SampleOptions& options) {
  // Every item draws a number; those with the smallest stay, as many as fit.
  const Philox draws(options.seed, hash_name("tokenizer_sample"));
  struct Kept {
    std::uint64_t item;
    std::string text;
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> kept;    // by (draw, item)
  std::pair<std::uint64_t, std::uint64_t> limit(UINT64_MAX, UINT64_MAX);  // the smallest that had to go
  std::size_t bytes = 0;
  std::uint64_t item_number = 0;
  std::uint64_t total_disk = 0;
  for (const TextInput& input : inputs) total_disk += input.disk_bytes;
  ProgressLine progress;
  const auto start = std::chrono::steady_clock::now();
  BatchReader reader(inputs, rules);
  for (TextBatch batch; reader.next(batch);) {
    for (const TextItem& item : batch.items) {
      const std::pair key(draws.bits(item_number), item_number);
      ++item_number;
      if (key > limit) continue;
      std::string text(batch.view(item));
      if (item.line > 0) {
        try {
          text = item_text(batch, item, inputs[batch.input].path, rules.text_key);
        } catch (const Error&) {
          if (!options.skip_bad) throw;
          continue;
        }
      }
      text.resize(piece_length(text));
      bytes += text.size();
      kept.emplace(key, std::move(text));
      while (bytes > options.max_bytes && kept.size() > 1) {
        limit = kept.rbegin()->first;
        bytes -= kept.rbegin()->second.size();
        kept.erase(std::prev(kept.end()));
      }
    }
    if (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(500)) continue;
    progress.update(concat("sampling text for the tokenizer: ", human_bytes(static_cast<double>(batch.disk_position)),
                           total_disk > 0 ? concat(" of ", human_bytes(static_cast<double>(total_disk))) : ""));
  }
  std::vector<Kept> ordered;
  for (auto& [key, text] : kept) ordered.push_back({key.second, std::move(text)});
  std::sort(ordered.begin(), ordered.end(), [](const Kept& a, const Kept& b) { return a.item < b.item; });
  std::vector<std::string> texts;
  for (Kept& item : ordered) texts.push_back(std::move(item.text));
  return texts;
}

}  // namespace satformer
