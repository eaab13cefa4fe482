# The GPU's programs (kernels/*/*.cu). With SATFORMER_CUDA nvcc compiles them; without, they are plain C++ that only
# the host runs (kernels/gpu/team.h), so that their tests and the fronts' symbols are there in every build.
file(GLOB gpu_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/kernels/*/*.cu")
add_library(satformer_gpu STATIC ${gpu_sources})
target_link_libraries(satformer_gpu PUBLIC satformer_options)
if(SATFORMER_CUDA)
  # One file of the host's knows of CUDA: all others come out of the compiler cache of a build without it.
  set_source_files_properties("${CMAKE_SOURCE_DIR}/src/kernels/backend.cpp" PROPERTIES
    COMPILE_DEFINITIONS SATFORMER_CUDA)
  # The element headers carry `omp simd`.
  target_compile_options(satformer_gpu PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Wshadow,-Werror,-fopenmp-simd>")
  target_link_libraries(satformer_gpu PUBLIC "${SATFORMER_CUDART}")
else()
  set_source_files_properties(${gpu_sources} PROPERTIES LANGUAGE CXX)
  target_compile_options(satformer_gpu PRIVATE -fopenmp-simd)
endif()
set_property(GLOBAL APPEND PROPERTY SATFORMER_LIBRARIES satformer_gpu)
