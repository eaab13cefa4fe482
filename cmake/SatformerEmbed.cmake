# satformer_embed(TARGET NAMESPACE HEADER FILES...): builds the files into TARGET as text, found by name through
# NAMESPACE::asset() of HEADER. CMake alone does it.
function(satformer_embed target namespace header)
  set(entries "")
  foreach(path ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    get_filename_component(name "${path}" NAME)
    file(READ "${path}" text)
    file(SHA256 "${path}" hash)
    # Scripts and styles may be put into a page.
    if(text MATCHES "\\)asset\"" OR (NOT name MATCHES "[.](html|svg)$" AND text MATCHES "</[Ss][CcTt]"))
      message(FATAL_ERROR "${path}: must not contain the ends of a raw string, a script or a style")
    endif()
    string(APPEND entries "  if (name == \"${name}\") return {R\"asset(${text})asset\", \"${hash}\"};\n")
  endforeach()
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/${target}_assets.cpp")
  file(WRITE "${generated}.in" "// Made from the assets beside ${header} by cmake/SatformerEmbed.cmake.
#include \"${header}\"

#include \"base/error.h\"

namespace ${namespace} {

Asset asset(std::string_view name) {
${entries}  fail(ExitCode::internal, \"no asset '\", name, \"'\");
}

}  // namespace ${namespace}
")
  configure_file("${generated}.in" "${generated}" COPYONLY)  # leaves an equal file and its age alone
  target_sources(${target} PRIVATE "${generated}")
endfunction()
