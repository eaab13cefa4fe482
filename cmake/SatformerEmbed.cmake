# satformer_embed(TARGET FILES...): builds the files into TARGET as text, found by name through report/assets.h. CMake alone does it.
function(satformer_embed target)
  set(entries "")
  foreach(path ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    get_filename_component(name "${path}" NAME)
    file(READ "${path}" text)
    file(SHA256 "${path}" hash)
    if(text MATCHES "\\)asset\"|</[Ss][CcTt]")
      message(FATAL_ERROR "${path}: must not contain the ends of a raw string, a script or a style")
    endif()
    string(APPEND entries "  if (name == \"${name}\") return {R\"asset(${text})asset\", \"${hash}\"};\n")
  endforeach()
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/${target}_assets.cpp")
  file(WRITE "${generated}.in" "// Made from src/report/assets by cmake/SatformerEmbed.cmake.
#include \"report/assets.h\"

#include \"base/error.h\"

namespace satformer {

Asset asset(std::string_view name) {
${entries}  fail(ExitCode::internal, \"no asset '\", name, \"'\");
}

}  // namespace satformer
")
  configure_file("${generated}.in" "${generated}" COPYONLY)  # leaves an equal file and its age alone
  target_sources(${target} PRIVATE "${generated}")
endfunction()
