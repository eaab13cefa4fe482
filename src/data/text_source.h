// Text as a stream of batches: plain text, JSON lines (each also gzip or zstd) or a column of Parquet files. Memory
// stays bounded by the batch size and the longest JSON line; a file may be larger than memory.
//
// In every document a byte order mark at the start is dropped and CRLF becomes LF, so that neither changes tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "data/byte_reader.h"

namespace satformer {

enum class TextFormat { plain, json_lines, parquet };
// "text", "jsonl", "parquet"; nothing for "auto". Error(usage) for other names.
std::optional<TextFormat> text_format(const std::string& name);

struct TextInput {
  std::string path;  // "-": standard input
  TextFormat format = TextFormat::plain;
  Compression compression = Compression::none;
  std::uint64_t disk_bytes = 0;              // 0: unknown
  std::shared_ptr<SpooledInput> spool = {};  // of standard input
};

struct InputList {
  std::vector<TextInput> files;
  std::int64_t duplicates = 0;    // files that several patterns name, counted once
  std::int64_t unrecognised = 0;  // files of folders with none of the extensions, left alone
};

struct InputRules {
  std::vector<std::string> exclude;  // files left out of folders
  // What the files hold; nothing: .jsonl and .json say JSON lines, .parquet or a file's first bytes Parquet, anything
  // else plain text. Standard input needs it.
  std::optional<TextFormat> format;
};

// Expands files, folders (recursively, in sorted order: .txt, .jsonl, .json, each also .gz, .zst and .zstd, and
// .parquet), globs and "-", standard input. Compression is seen by content, or by name. Errors: a missing file
// (system); a glob or a folder that gives nothing, a binary file (data); standard input of unknown format or as
// Parquet (usage).
InputList find_inputs(std::span<const std::string> patterns, const InputRules& rules = {});

// Decompressed bytes of one file without byte order mark, CRLF as LF. Error(data) naming the file where compressed
// data is cut off or corrupt and, for plain text, where bytes are not UTF-8: with line and offset, unless they are
// replaced.
class TextStream {
 public:
  explicit TextStream(const TextInput& input, bool replace_invalid = false);
  ~TextStream();
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;
  bool read(std::string& out);  // appends a block of text; false at the end
  std::uint64_t disk_position() const;
  std::int64_t replaced_bytes() const;  // of plain text, each as U+FFFD

 private:
  struct Source;
  std::unique_ptr<Source> source_;
  std::string block_;
  bool at_start_ = true, carriage_return_ = false;
};

// Documents are numbered from 0 in the order of the input, empty and bad ones included. A share of them, drawn by a
// hash of seed and number, is read; the others are not looked at.
struct DocumentSample {
  double share = 1;
  std::uint64_t seed = 0;
};

// How inputs fall into documents. A plain text file does at lines equal to `separator` (which are dropped); else,
// with min_document_bytes > 0, at blank lines (dropped) once a document has that many bytes; else not at all.
struct DocumentRules {
  std::string separator;
  std::int64_t min_document_bytes = 0;
  std::string text_key = "text";  // JSON lines: the key, Parquet: the column
  bool replace_invalid = false;   // plain text: see TextStream
  DocumentSample sample = {};
};

// Part of a batch's text: a JSON line, a value of a Parquet column, or a piece of a plain text document.
struct TextItem {
  std::size_t begin = 0, size = 0;
  std::uint64_t line = 0;      // JSON lines and Parquet: number of the line or row in the file, from 1
  bool continued = false;      // plain text: not the first piece of its document
  bool ends_document = false;  // plain text: the last piece
  bool too_long = false;       // JSON lines and Parquet: over max_line_bytes and dropped
  bool null = false;           // Parquet
};

struct TextBatch {
  std::size_t input = 0;  // index of the file
  TextFormat format = TextFormat::plain;
  std::string text;
  std::vector<TextItem> items;
  std::int64_t sampled_out = 0;     // documents of this stretch that are not in the sample
  std::int64_t replaced_bytes = 0;  // of plain text
  std::uint64_t disk_position = 0;  // bytes on disk read so far, over all files
  std::string_view view(const TextItem& item) const { return std::string_view(text).substr(item.begin, item.size); }
};

inline constexpr std::size_t max_line_bytes = std::size_t{256} << 20;

// Documents are tokenised in pieces of at most this size. A piece ends before a newline, else a space, that follows a
// visible character; where a text has neither, between two characters.
inline constexpr std::size_t max_piece_bytes = std::size_t{64} << 10;
std::size_t piece_length(std::string_view text);

bool is_blank(std::string_view text);  // nothing but ASCII white space

// Batches of whole lines or pieces, in the order of files and lines. The division into items depends on the text
// alone.
class ParquetColumn;

class BatchReader {
 public:
  BatchReader(std::vector<TextInput> inputs, DocumentRules rules);
  ~BatchReader();
  bool next(TextBatch& batch);  // false at the end

 private:
  void open();
  std::uint64_t disk_position() const;
  bool exhausted() const { return stream_ended_ && pending_from_ == pending_.size(); }
  void choose_document();            // sets wanted_ for the document that begins
  bool skip_item(TextBatch& batch);  // counts a line or row; true if it is not in the sample
  void read_lines(TextBatch& batch);
  void read_rows(TextBatch& batch);
  void read_documents(TextBatch& batch);
  void add_text(TextBatch& batch, std::string_view text);
  void end_document(TextBatch& batch);

  std::vector<TextInput> inputs_;
  DocumentRules rules_;
  std::size_t input_ = 0;
  std::unique_ptr<TextStream> stream_;
  std::unique_ptr<ParquetColumn> column_;
  std::uint64_t finished_bytes_ = 0;  // of files before this one
  std::string pending_;               // read and not yet divided
  std::size_t pending_from_ = 0;      // what of it is done
  std::size_t searched_ = 0;          // JSON lines: no newline before this
  std::uint64_t line_ = 0;
  std::string document_;  // text of the current document that no piece has yet
  std::uint64_t document_bytes_ = 0;
  Philox sample_draws_;
  std::uint64_t document_number_ = 0;  // over all files
  bool wanted_ = true;                 // the current document is in the sample
  std::int64_t replaced_bytes_ = 0;    // of this file, as reported so far
  bool any_piece_ = false, any_document_ = false, in_long_line_ = false, stream_ended_ = false;
};

}  // namespace satformer
