#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/text_source.h"

namespace satformer {
namespace {

constexpr std::size_t batch_bytes = std::size_t{256} << 10;
constexpr std::size_t batch_items = 8192;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_full(const TextBatch& batch) { return batch.text.size() >= batch_bytes || batch.items.size() >= batch_items; }

}  // namespace

bool is_blank(std::string_view text) { return std::all_of(text.begin(), text.end(), is_space); }

std::size_t piece_length(std::string_view text) {
  if (text.size() <= max_piece_bytes) return text.size();
  for (const char border : {'\n', ' '}) {
    for (std::size_t at = max_piece_bytes; at > max_piece_bytes / 2; --at) {
      if (text[at] == border && !is_space(text[at - 1])) return at;
    }
  }
  std::size_t at = max_piece_bytes;
  while (at > max_piece_bytes - 3 && (text[at] & 0xC0) == 0x80) --at;
  return at;
}

BatchReader::BatchReader(std::vector<TextInput> inputs, DocumentRules rules)
    : inputs_(std::move(inputs)), rules_(std::move(rules)) {}
BatchReader::~BatchReader() = default;

bool BatchReader::next(TextBatch& batch) {
  batch = TextBatch();
  while (input_ < inputs_.size()) {
    if (!stream_) {
      stream_ = std::make_unique<TextStream>(inputs_[input_]);
      stream_ended_ = any_piece_ = any_document_ = in_long_line_ = false;
      line_ = document_bytes_ = 0;
      document_.clear();
      pending_.clear();
      pending_from_ = searched_ = 0;
    }
    batch.input = input_;
    const bool json_lines = inputs_[input_].json_lines;
    while (!is_full(batch)) {
      if (json_lines) {
        read_lines(batch);
      } else {
        read_documents(batch);
      }
      if (stream_ended_ && pending_from_ == pending_.size()) break;
    }
    batch.disk_position = finished_bytes_ + stream_->disk_position();
    if (stream_ended_ && pending_from_ == pending_.size()) {
      finished_bytes_ += stream_->disk_position();
      stream_.reset();
      ++input_;
    }
    if (!batch.items.empty()) return true;
  }
  return false;
}

// Adds the complete lines there are until the batch is full, or reads one block more.
void BatchReader::read_lines(TextBatch& batch) {
  while (!is_full(batch)) {
    const auto newline = pending_.find('\n', std::max(pending_from_, searched_));
    const bool whole = newline != std::string::npos;
    const std::size_t end = whole ? newline : pending_.size();
    if (!whole && !stream_ended_) {
      if (end - pending_from_ > max_line_bytes) in_long_line_ = true;
      pending_.erase(0, in_long_line_ ? end : pending_from_);
      pending_from_ = 0;
      searched_ = pending_.size();
      stream_ended_ = !stream_->read(pending_);
      continue;
    }
    if (!whole && end == pending_from_ && !in_long_line_) return;
    ++line_;
    const std::string_view line = std::string_view(pending_).substr(pending_from_, end - pending_from_);
    if (std::exchange(in_long_line_, false) || line.size() > max_line_bytes) {
      batch.items.push_back({.line = line_, .too_long = true});
    } else if (!is_blank(line)) {
      batch.items.push_back({.begin = batch.text.size(), .size = line.size(), .line = line_});
      batch.text += line;
    }
    pending_from_ = std::min(end + 1, pending_.size());
  }
}

// Adds the text at hand to documents, or reads one block more.
void BatchReader::read_documents(TextBatch& batch) {
  const bool by_lines = !rules_.separator.empty() || rules_.min_document_bytes > 0;
  if (pending_from_ == pending_.size()) {
    pending_.clear();
    pending_from_ = 0;
  }
  if (!by_lines) {
    stream_ended_ = !stream_->read(pending_);
    add_text(batch, pending_);
    pending_.clear();
    if (stream_ended_) end_document(batch);
    return;
  }
  while (!is_full(batch)) {
    const std::string_view rest = std::string_view(pending_).substr(pending_from_);
    const auto newline = rest.find('\n');
    const bool whole = newline != std::string_view::npos;
    const std::string_view line = rest.substr(0, newline);
    const std::string_view text = rest.substr(0, whole ? newline + 1 : rest.size());
    // A line that can be no separator any more goes on without waiting for its end.
    if (!whole && !stream_ended_ && rest.size() <= std::max(max_piece_bytes, rules_.separator.size())) {
      pending_.erase(0, pending_from_);
      pending_from_ = 0;
      stream_ended_ = !stream_->read(pending_);
      continue;
    }
    const bool starts_line = !in_long_line_;
    in_long_line_ = !whole;
    const bool border = starts_line && (whole || stream_ended_) &&
                        (rules_.separator.empty() ? is_blank(line) : line == rules_.separator) &&
                        !(text.empty() && stream_ended_);
    const bool by_blank = rules_.separator.empty();
    if (!border) {
      add_text(batch, text);
    } else if (!by_blank || document_bytes_ >= static_cast<std::uint64_t>(rules_.min_document_bytes)) {
      end_document(batch);
    } else if (document_bytes_ > 0) {
      add_text(batch, text);
    }
    pending_from_ += text.size();
    if (stream_ended_ && pending_from_ == pending_.size()) {
      if (document_bytes_ > 0 || !any_document_) end_document(batch);
      return;
    }
  }
}

void BatchReader::add_text(TextBatch& batch, std::string_view text) {
  document_ += text;
  document_bytes_ += text.size();
  std::size_t from = 0;
  while (document_.size() - from > max_piece_bytes) {
    const std::string_view rest = std::string_view(document_).substr(from);
    const std::size_t size = piece_length(rest);
    batch.items.push_back({.begin = batch.text.size(), .size = size, .continued = any_piece_});
    batch.text += rest.substr(0, size);
    any_piece_ = true;
    from += size;
  }
  document_.erase(0, from);
}

void BatchReader::end_document(TextBatch& batch) {
  batch.items.push_back(
      {.begin = batch.text.size(), .size = document_.size(), .continued = any_piece_, .ends_document = true});
  batch.text += document_;
  document_.clear();
  document_bytes_ = 0;
  any_piece_ = false;
  any_document_ = true;
}

}  // namespace satformer
