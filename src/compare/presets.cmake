# The presets are files of the same form as a user's specification; their text is built into the program, in the order
# of this list.
set(preset_names smoke ladder-cpu ladder-stories size-ladder paper-130m paper-340m paper-760m paper-1.3b
  gate-functions gate-granularity last-k sources depth learning-rate precision)
set(preset_entries "")
foreach(name ${preset_names})
  set(path "${CMAKE_CURRENT_LIST_DIR}/presets/${name}.json")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  file(READ "${path}" text)
  string(APPEND preset_entries "      {\"${name}\", R\"preset(${text})preset\"},\n")
endforeach()
set(preset_source "${CMAKE_CURRENT_BINARY_DIR}/compare_presets.cpp")
file(WRITE "${preset_source}.in" "// Made from src/compare/presets by src/compare/presets.cmake.
#include \"compare/spec.h\"

namespace satformer {

const std::vector<Preset>& compare_presets() {
  static const std::vector<Preset> list = {
${preset_entries}  };
  return list;
}

}  // namespace satformer
")
configure_file("${preset_source}.in" "${preset_source}" COPYONLY)  # leaves an equal file and its age alone
target_sources(satformer_compare PRIVATE "${preset_source}")
