// What a mapped file can still do after it was opened: become shorter, or sit on a disk that fails. Reading it then
// is no failed call but the signal SIGBUS.
#pragma once

#include <cstddef>
#include <string>

#include "io/file.h"

namespace satformer {

// From now on SIGBUS in a mapping of MappedFile ends the process with ExitCode::system and one line on standard error
// that names the file. Elsewhere it does what it did.
void report_mapping_faults();

// To be called after bytes of `file` were copied: where a file is cut within a page, the rest of that page reads as
// zeros and no signal comes. Error(system) if the file is shorter now than it was when it was mapped.
void check_not_cut(const MappedFile& file);

// Used by MappedFile. Of more than some thousand mappings at once the rest is not known by name.
void note_mapping(const std::byte* begin, std::size_t size, const std::string& path);
void forget_mapping(const std::byte* begin);

}  // namespace satformer
