# The row kernels once per instruction set. Nothing in these files may leave a symbol that another file could define
# too (std headers, inline functions with external linkage): the linker would keep one copy, for whichever CPU.
set(isa_dir "${CMAKE_SOURCE_DIR}/src/kernels/isa")
# As properties of the sources, so that they come after the target's -O2.
set(isa_options -O3 -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast)
set(isa_sources "${isa_dir}/generic.cpp")
set_source_files_properties("${isa_dir}/generic.cpp" PROPERTIES COMPILE_OPTIONS "${isa_options}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(APPEND isa_sources "${isa_dir}/avx2.cpp" "${isa_dir}/avx512.cpp")
  set_source_files_properties("${isa_dir}/avx2.cpp" PROPERTIES COMPILE_OPTIONS "${isa_options};-mavx2;-mfma")
  set_source_files_properties("${isa_dir}/avx512.cpp" PROPERTIES COMPILE_OPTIONS
    "${isa_options};-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx2;-mfma;-mprefer-vector-width=512")
endif()
add_library(satformer_isa STATIC ${isa_sources})
target_link_libraries(satformer_isa PUBLIC satformer_options)
# The row headers carry `omp simd`, which a compiler without the flag warns of.
target_compile_options(satformer_isa PUBLIC $<$<COMPILE_LANGUAGE:CXX>:-fopenmp-simd>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  target_compile_definitions(satformer_isa PUBLIC SATFORMER_ISA_X86)
endif()
set_property(GLOBAL APPEND PROPERTY SATFORMER_LIBRARIES satformer_isa)

# The one file that opens parallel regions (with GCC at::parallel_for is serial without the flag; with Clang the file asks
# libgomp itself).
set_source_files_properties("${CMAKE_SOURCE_DIR}/src/kernels/parallel.cpp" PROPERTIES COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-fopenmp>"
  SKIP_PRECOMPILE_HEADERS ON)
target_link_libraries(satformer_isa INTERFACE gomp)
