# The Python files that an export for transformers carries, and those that check exports; their text is built into the
# program.
file(GLOB hf_files CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.py" "${CMAKE_CURRENT_LIST_DIR}/../gguf/*.py")
set(hf_entries "")
foreach(path ${hf_files})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  get_filename_component(name "${path}" NAME)
  file(READ "${path}" text)
  if(text MATCHES "\\)python\"")
    message(FATAL_ERROR "${path}: must not contain the end of a raw string")
  endif()
  string(APPEND hf_entries "  if (name == \"${name}\") return R\"python(${text})python\";\n")
endforeach()
set(hf_source "${CMAKE_CURRENT_BINARY_DIR}/checkpoint_hf_files.cpp")
file(WRITE "${hf_source}.in" "// Made from src/checkpoint/hf and gguf by src/checkpoint/hf/files.cmake.
#include \"checkpoint/hf/files.h\"

#include \"base/error.h\"

namespace satformer {

std::string_view hf_file(std::string_view name) {
${hf_entries}  fail(ExitCode::internal, \"no file '\", name, \"'\");
}

}  // namespace satformer
")
configure_file("${hf_source}.in" "${hf_source}" COPYONLY)  # leaves an equal file and its age alone
target_sources(satformer_checkpoint PRIVATE "${hf_source}")
