#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/parquet_column.h"
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

static_assert(max_value_bytes == max_line_bytes);

BatchReader::BatchReader(std::vector<TextInput> inputs, DocumentRules rules)
    : inputs_(std::move(inputs)),
      rules_(std::move(rules)),
      sample_draws_(rules_.sample.seed, hash_name("document_sample")) {}
BatchReader::~BatchReader() = default;

void BatchReader::open() {
  const TextInput& input = inputs_[input_];
  if (input.format == TextFormat::parquet) {
    column_ = std::make_unique<ParquetColumn>(input.path, rules_.text_key);
  } else {
    stream_ = std::make_unique<TextStream>(input, rules_.replace_invalid);
  }
  stream_ended_ = any_piece_ = any_document_ = in_long_line_ = false;
  line_ = document_bytes_ = 0;
  replaced_bytes_ = 0;
  document_.clear();
  pending_.clear();
  pending_from_ = searched_ = 0;
  choose_document();
}

std::uint64_t BatchReader::disk_position() const {
  if (stream_) return stream_->disk_position();
  const double share = column_->num_rows() == 0
                           ? 1.0
                           : static_cast<double>(column_->rows_read()) / static_cast<double>(column_->num_rows());
  return static_cast<std::uint64_t>(share * static_cast<double>(inputs_[input_].disk_bytes));
}

bool BatchReader::next(TextBatch& batch) {
  batch = TextBatch();
  while (input_ < inputs_.size()) {
    if (!stream_ && !column_) open();
    batch.input = input_;
    batch.format = inputs_[input_].format;
    while (!is_full(batch) && !exhausted()) {
      if (batch.format == TextFormat::parquet) {
        read_rows(batch);
      } else if (batch.format == TextFormat::json_lines) {
        read_lines(batch);
      } else {
        read_documents(batch);
      }
    }
    if (stream_)
      batch.replaced_bytes += stream_->replaced_bytes() - std::exchange(replaced_bytes_, stream_->replaced_bytes());
    batch.disk_position = finished_bytes_ + disk_position();
    if (exhausted()) {
      finished_bytes_ += inputs_[input_].disk_bytes > 0 ? inputs_[input_].disk_bytes : disk_position();
      stream_.reset();
      column_.reset();
      ++input_;
    }
    if (!batch.items.empty()) return true;
  }
  return batch.sampled_out > 0 || batch.replaced_bytes > 0;
}

void BatchReader::choose_document() {
  wanted_ = rules_.sample.share >= 1 || sample_draws_.uniform(document_number_) < rules_.sample.share;
}

bool BatchReader::skip_item(TextBatch& batch) {
  choose_document();
  ++document_number_;
  if (!wanted_) ++batch.sampled_out;
  return !wanted_;
}

void BatchReader::read_rows(TextBatch& batch) {
  ParquetColumn::Value value;
  if (!column_->next(value)) {
    stream_ended_ = true;
    return;
  }
  ++line_;
  if (skip_item(batch)) return;
  batch.items.push_back({.begin = batch.text.size(),
                         .size = value.text.size(),
                         .line = line_,
                         .too_long = value.too_long,
                         .null = value.null});
  batch.text += value.text;
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
    const bool too_long = std::exchange(in_long_line_, false) || line.size() > max_line_bytes;
    const bool blank = !too_long && is_blank(line);
    if (blank || skip_item(batch)) {
      // nothing to add
    } else if (too_long) {
      batch.items.push_back({.line = line_, .too_long = true});
    } else {
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
  document_bytes_ += text.size();
  if (!wanted_) return;
  document_ += text;
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
  if (wanted_) {
    batch.items.push_back(
        {.begin = batch.text.size(), .size = document_.size(), .continued = any_piece_, .ends_document = true});
    batch.text += document_;
  } else {
    ++batch.sampled_out;
  }
  document_.clear();
  document_bytes_ = 0;
  any_piece_ = false;
  any_document_ = true;
  ++document_number_;
  choose_document();
}

}  // namespace satformer
