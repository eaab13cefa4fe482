# One function makes a folder's library, its unit tests and its benchmarks from the file names.
add_library(satformer_options INTERFACE)
target_compile_features(satformer_options INTERFACE cxx_std_20)
# Ours alone: programs that link an installed satformer choose their own.
target_compile_options(satformer_options INTERFACE $<BUILD_INTERFACE:
  -Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Werror;
  $<$<CONFIG:Release>:-O2>;-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)
target_include_directories(satformer_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/satformer>)

# satformer_folder(NAME [DEPS libs...]): every .cpp of src/NAME (and its sub-folders) except *_test.cpp and *_bench.cpp.
function(satformer_folder name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${name}/*.cpp")
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|/main|/isa/[^/]*)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  set(target satformer_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC satformer_options ${ARG_DEPS})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE satformer_options ${ARG_DEPS})
  endif()
  set_property(GLOBAL APPEND PROPERTY SATFORMER_LIBRARIES ${target})
  if(SATFORMER_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${target} GTest::gtest_main)
    add_test(NAME unit.${name} COMMAND ${name}_test)
    set_tests_properties(unit.${name} PROPERTIES TIMEOUT 900)
  endif()
  if(SATFORMER_BENCH AND benches)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE ${target} benchmark::benchmark_main)
  endif()
endfunction()
