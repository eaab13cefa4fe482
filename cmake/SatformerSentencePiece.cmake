# SentencePiece from its PyPI source package, static and with hidden symbols: the shared library from Debian shares flag
# symbols of different sizes with libc10.
set(sp_dir "${SATFORMER_DEPS_DIR}/sentencepiece-0.2.1/sentencepiece")
if(NOT EXISTS "${sp_dir}/CMakeLists.txt")
  message(FATAL_ERROR "SentencePiece sources not found at ${sp_dir}. Run 'make setup'.")
endif()
set(SPM_ENABLE_SHARED OFF CACHE BOOL "" FORCE)
set(SPM_ENABLE_TCMALLOC OFF CACHE BOOL "" FORCE)
function(satformer_add_sentencepiece)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  # Optimised and without sanitizers in every preset: it is not what they are there to test, and ccache makes it once.
  string(REGEX REPLACE "-f(no-)?(sanitize|omit-frame-pointer)[^ ]*" "" CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} -w")
  foreach(type DEBUG RELWITHDEBINFO)
    set(CMAKE_CXX_FLAGS_${type} "${CMAKE_CXX_FLAGS_RELEASE}")
  endforeach()
  add_subdirectory("${sp_dir}" "${CMAKE_BINARY_DIR}/sentencepiece" EXCLUDE_FROM_ALL SYSTEM)
endfunction()
satformer_add_sentencepiece()
# Imported, so that the installed package can define it anew over the installed archives.
add_library(satformer_sentencepiece INTERFACE IMPORTED)
target_include_directories(satformer_sentencepiece INTERFACE "${sp_dir}/src")
target_link_libraries(satformer_sentencepiece INTERFACE sentencepiece_train-static sentencepiece-static Threads::Threads)
target_link_options(satformer_sentencepiece INTERFACE
  "LINKER:--exclude-libs,libsentencepiece.a:libsentencepiece_train.a")
