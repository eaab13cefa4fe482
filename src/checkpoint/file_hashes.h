// The record of a folder's files: a JSON file among them that holds the SHA-256 of each, itself included.
//   "sha256": {"config.json": "...", "model.safetensors": "...", "state.json": "..."}
// The record's own entry is of its text with that entry written as 64 zeros, so that no byte of the folder can change
// unnoticed.
#pragma once

#include <map>
#include <string>

#include "base/json.h"

namespace satformer {

// Writes `record` with the hashes of all files in `directory` added as `directory`/`name`; those in `known` are not
// read.
void write_hash_record(const std::string& directory, const std::string& name, Json record,
                       const std::map<std::string, std::string>& known = {});

// The record, its own hash verified. Error(checkpoint) if that differs, or is absent where `old` does not know the
// record as one of version 0.1, which held none.
Json read_hash_record(const std::string& directory, const std::string& name, bool (*old)(const Json& record));

// Compares one file with the record's hash. Error(checkpoint): missing, cut or changed.
void verify_hash(const std::string& directory, const std::string& file, const Json& record, const std::string& name);

}  // namespace satformer
