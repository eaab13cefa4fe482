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
# Clang 14 says so where it does not vectorise a loop marked with `omp simd`.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND warnings -Wno-pass-failed)
endif()
target_compile_options(satformer_options INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${warnings};$<$<CONFIG:Release>:$<IF:$<BOOL:$<TARGET_PROPERTY:SATFORMER_LIGHT>>,-O1,-O2>>>>")
target_include_directories(satformer_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/satformer>)

# libtorch's tensor and nlohmann's JSON, parsed once instead of in every file (two thirds of a file's time): one
# precompiled header for libraries and one, with GoogleTest, for tests. Headers of the project are not in it, so that a
# change to one of them builds what includes it and no more.
option(SATFORMER_PCH "Precompile the headers of libtorch and nlohmann-json" ON)
function(satformer_precompile)
  set(names pch)
  if(SATFORMER_TESTS)
    list(APPEND names test_pch)
  endif()
  foreach(name ${names})
    set(target satformer_${name})
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp.in" "")
    configure_file("${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp.in" "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp" COPYONLY)
    add_library(${target} OBJECT "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
    target_link_libraries(${target} PRIVATE satformer_options satformer_torch satformer_isa nlohmann_json::nlohmann_json)
    target_precompile_headers(${target} PRIVATE
      <ATen/TensorOperators.h> <ATen/core/Tensor.h> <nlohmann/json.hpp>
      <algorithm> <functional> <map> <memory> <optional> <span> <string> <string_view> <utility> <vector>)
  endforeach()
  if(NOT SATFORMER_TESTS)
    return()
  endif()
  # Tests are programs: position-independent as such.
  set_target_properties(satformer_test_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(satformer_test_pch PRIVATE -fPIE)
  target_link_libraries(satformer_test_pch PRIVATE GTest::gtest)
  target_precompile_headers(satformer_test_pch PRIVATE <gtest/gtest.h>)
endfunction()

# Several files as one translation unit: what they share (torch's and JSON's templates) is instantiated once instead of
# in each, a third of the time for a whole build. Names in anonymous namespaces are therefore unique in a folder.
option(SATFORMER_UNITY "Compile a folder's files together, eight at a time (off: one file is rebuilt alone)" ON)

function(satformer_unity target)
  # Five of the commands, which include much: a changed file is built again in half a minute.
  set(at_once 8)
  if(target STREQUAL "satformer_cli")
    set(at_once 5)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${SATFORMER_UNITY} UNITY_BUILD_BATCH_SIZE ${at_once})
  if(SATFORMER_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It takes every included file for a header, whose types must not hold those of an anonymous namespace.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# satformer_folder(NAME [LIGHT] [TESTS_APART] [DEPS libs...]): every .cpp of src/NAME (and its sub-folders) except *_test.cpp and
# *_bench.cpp. LIGHT: no arithmetic in loops of its own, so -O1, which compiles in two thirds of the time; tests are.
# TESTS_APART: its tests use a name for several things, so they are not compiled together.
function(satformer_folder name)
  cmake_parse_arguments(ARG "LIGHT;TESTS_APART" "" "DEPS" ${ARGN})
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
  if(sources)
    satformer_unity(${target})
  endif()
  if(sources AND ARG_LIGHT)
    set_target_properties(${target} PROPERTIES SATFORMER_LIGHT ON)
  endif()
  if(sources AND TARGET satformer_pch)
    target_precompile_headers(${target} REUSE_FROM satformer_pch)
  endif()
  set_property(GLOBAL APPEND PROPERTY SATFORMER_LIBRARIES ${target})
  if(SATFORMER_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${target} GTest::gtest_main)
    set_target_properties(${name}_test PROPERTIES SATFORMER_LIGHT ON)
    if(NOT ARG_TESTS_APART)
      satformer_unity(${name}_test)
    endif()
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
    satformer_unity(${name}_bench)
  endif()
endfunction()
