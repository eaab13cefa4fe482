# One function makes a folder's library, its unit tests and its benchmarks from the file names.
add_library(satformer_options INTERFACE)
target_compile_features(satformer_options INTERFACE cxx_std_20)
# Ours alone: programs that link an installed satformer choose their own.
set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
# GCC 12 takes the inside of std::string for out of bounds (its bugs 105329 and 105651), and says so of headers that
# come precompiled.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND warnings -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
endif()
target_compile_options(satformer_options INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${warnings};$<$<CONFIG:Release>:-O2>>>")
target_include_directories(satformer_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/satformer>)

# libtorch's tensor and nlohmann's JSON, parsed once instead of in every file (two thirds of a file's time): one
# precompiled header for libraries and one, with GoogleTest, for tests. Headers of the project are not in it, so that a
# change to one of them builds what includes it and no more.
option(SATFORMER_PCH "Precompile the headers of libtorch and nlohmann-json" ON)
function(satformer_precompile)
  foreach(name pch test_pch)
    set(target satformer_${name})
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp.in" "")
    configure_file("${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp.in" "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp" COPYONLY)
    add_library(${target} OBJECT "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
    target_link_libraries(${target} PRIVATE satformer_options satformer_torch satformer_isa nlohmann_json::nlohmann_json)
    target_precompile_headers(${target} PRIVATE
      <ATen/TensorOperators.h> <ATen/core/Tensor.h> <nlohmann/json.hpp>
      <algorithm> <functional> <map> <memory> <optional> <span> <string> <string_view> <utility> <vector>)
  endforeach()
  # Tests are programs: position-independent as such.
  set_target_properties(satformer_test_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(satformer_test_pch PRIVATE -fPIE)
  target_link_libraries(satformer_test_pch PRIVATE GTest::gtest)
  target_precompile_headers(satformer_test_pch PRIVATE <gtest/gtest.h>)
endfunction()

# satformer_folder(NAME [DEPS libs...]): every .cpp of src/NAME (and its sub-folders) except *_test.cpp and *_bench.cpp.
function(satformer_folder name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${name}/*.cpp")
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|/main|/isa/[^/]*|/parquet/[^/]*|/nccl/[^/]*)\\.cpp$")
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
  if(sources AND TARGET satformer_pch)
    target_precompile_headers(${target} REUSE_FROM satformer_pch)
  endif()
  set_property(GLOBAL APPEND PROPERTY SATFORMER_LIBRARIES ${target})
  if(SATFORMER_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${target} GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE SATFORMER_TEST_DATA="${CMAKE_SOURCE_DIR}/tests")
    if(TARGET satformer_test_pch)
      target_precompile_headers(${name}_test REUSE_FROM satformer_test_pch)
    endif()
    add_test(NAME unit.${name} COMMAND ${name}_test)
    set_tests_properties(unit.${name} PROPERTIES TIMEOUT 900)
  endif()
  if(SATFORMER_BENCH AND benches)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE ${target} benchmark::benchmark_main)
  endif()
endfunction()
