// Text files as a stream of batches: plain text or JSON lines, each also gzip. Memory stays bounded by the batch size
// and the longest JSON line; a file may be larger than memory.
//
// In every document a byte order mark at the start is dropped and CRLF becomes LF, so that neither changes tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

struct TextInput {
  std::string path;
  bool json_lines = false;  // by name: .jsonl or .json, before .gz
  bool gzip = false;        // by content, or by name
  std::uint64_t disk_bytes = 0;
};

struct InputList {
  std::vector<TextInput> files;
  std::int64_t duplicates = 0;    // files that several patterns name, counted once
  std::int64_t unrecognised = 0;  // files of folders with none of the extensions, left alone
};

// Expands files, folders (recursively, in sorted order: .txt, .jsonl, .json, each also .gz) and globs; a file named
// itself is plain text unless its extension says JSON. Files in `exclude` are left out of folders. Errors: a missing
// file (system); a glob or a folder that gives nothing, a binary file (data).
InputList find_inputs(std::span<const std::string> patterns, std::span<const std::string> exclude = {});

// Decompressed bytes of one file without byte order mark, CRLF as LF. Error(data) naming the file where gzip data is
// cut off or corrupt.
class TextStream {
 public:
  explicit TextStream(const TextInput& input);
  ~TextStream();
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;
  bool read(std::string& out);  // appends a block of text; false at the end
  std::uint64_t disk_position() const;

 private:
  struct Source;
  std::unique_ptr<Source> source_;
  std::string block_;
  bool at_start_ = true, carriage_return_ = false;
};

// How a plain text file falls into documents: at lines equal to `separator` (which are dropped); else, with
// min_document_bytes > 0, at blank lines (dropped) once a document has that many bytes; else not at all.
struct DocumentRules {
  std::string separator;
  std::int64_t min_document_bytes = 0;
};

// Part of a batch's text: a JSON line, or a piece of a plain text document.
struct TextItem {
  std::size_t begin = 0, size = 0;
  std::uint64_t line = 0;      // JSON lines: number in the file, from 1
  bool continued = false;      // plain text: not the first piece of its document
  bool ends_document = false;  // plain text: the last piece
  bool too_long = false;       // JSON lines: over max_line_bytes and dropped
};

struct TextBatch {
  std::size_t input = 0;  // index of the file
  std::string text;
  std::vector<TextItem> items;
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
class BatchReader {
 public:
  BatchReader(std::vector<TextInput> inputs, DocumentRules rules);
  ~BatchReader();
  bool next(TextBatch& batch);  // false at the end

 private:
  void read_lines(TextBatch& batch);
  void read_documents(TextBatch& batch);
  void add_text(TextBatch& batch, std::string_view text);
  void end_document(TextBatch& batch);

  std::vector<TextInput> inputs_;
  DocumentRules rules_;
  std::size_t input_ = 0;
  std::unique_ptr<TextStream> stream_;
  std::uint64_t finished_bytes_ = 0;  // of files before this one
  std::string pending_;               // read and not yet divided
  std::size_t pending_from_ = 0;      // what of it is done
  std::size_t searched_ = 0;          // JSON lines: no newline before this
  std::uint64_t line_ = 0;
  std::string document_;  // text of the current document that no piece has yet
  std::uint64_t document_bytes_ = 0;
  bool any_piece_ = false, any_document_ = false, in_long_line_ = false, stream_ended_ = false;
};

}  // namespace satformer
