# `cmake --install`: the program, the static libraries, the headers (included as in the source tree: "nn/model.h") and a
# package for find_package(satformer). tests/install builds a program against an installation.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/satformer")

get_property(libraries GLOBAL PROPERTY SATFORMER_LIBRARIES)
if(TARGET satformer_isa)
  list(APPEND libraries satformer_isa)
endif()
list(REMOVE_DUPLICATES libraries)
foreach(library IN LISTS libraries)
  string(REGEX REPLACE "^satformer_" "" name "${library}")
  set_target_properties(${library} PROPERTIES EXPORT_NAME "${name}")  # satformer::nn
endforeach()
set_target_properties(satformer_options PROPERTIES EXPORT_NAME options)
install(TARGETS ${libraries} satformer_options EXPORT satformerTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(program satformer satformer_parquet)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
endforeach()
install(DIRECTORY "${CMAKE_SOURCE_DIR}/src/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/satformer"
  FILES_MATCHING PATTERN "*.h" PATTERN "test_*.h" EXCLUDE)
install(FILES $<TARGET_FILE:sentencepiece-static> $<TARGET_FILE:sentencepiece_train-static>
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/satformer")

# Manual pages and completions come from the program itself.
if(TARGET satformer)
  install(CODE "
    set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
    execute_process(COMMAND \"$<TARGET_FILE:satformer>\" man --write \"\${root}/man/man1\" COMMAND_ERROR_IS_FATAL ANY)
    foreach(place bash:bash-completion/completions/satformer zsh:zsh/site-functions/_satformer
        fish:fish/vendor_completions.d/satformer.fish)
      string(REPLACE \":\" \";\" place \"\${place}\")
      list(GET place 0 shell)
      list(GET place 1 file)
      get_filename_component(folder \"\${root}/\${file}\" DIRECTORY)
      file(MAKE_DIRECTORY \"\${folder}\")
      execute_process(COMMAND \"$<TARGET_FILE:satformer>\" completion \${shell} OUTPUT_FILE \"\${root}/\${file}\"
        COMMAND_ERROR_IS_FATAL ANY)
    endforeach()")
endif()

install(EXPORT satformerTargets NAMESPACE satformer:: DESTINATION "${package_dir}")
configure_package_config_file("${CMAKE_SOURCE_DIR}/cmake/satformerConfig.cmake.in"
  "${CMAKE_BINARY_DIR}/satformerConfig.cmake" INSTALL_DESTINATION "${package_dir}"
  PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/satformerConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/satformerConfig.cmake" "${CMAKE_BINARY_DIR}/satformerConfigVersion.cmake"
  "${CMAKE_SOURCE_DIR}/cmake/SatformerTorch.cmake" DESTINATION "${package_dir}")

if(SATFORMER_TESTS AND SATFORMER_TORCH)
  add_test(NAME install.consumer COMMAND bash "${CMAKE_SOURCE_DIR}/tests/install/run.sh"
    "${CMAKE_BINARY_DIR}" "${CMAKE_CXX_COMPILER}")
  set_tests_properties(install.consumer PROPERTIES TIMEOUT 600)
endif()
