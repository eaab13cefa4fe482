# satformer_torch: libtorch. Its own CMake package insists on a CUDA toolkit, so the libraries are named here. Installed
# with the package, which includes it too.
if(SATFORMER_TORCH_DIR)
  set(torch_dir "${SATFORMER_TORCH_DIR}")
else()
  set(torch_dir "${SATFORMER_DEPS_DIR}/torch-2.15.0/torch")
endif()
if(NOT EXISTS "${torch_dir}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch not found at ${torch_dir}. Run 'make setup', or name an installed torch with "
    "-DSATFORMER_TORCH_DIR=.../site-packages/torch")
endif()
add_library(satformer_torch INTERFACE IMPORTED)
target_include_directories(satformer_torch INTERFACE
  "${torch_dir}/include" "${torch_dir}/include/torch/csrc/api/include")
target_link_libraries(satformer_torch INTERFACE
  "${torch_dir}/lib/libtorch_cpu.so" "${torch_dir}/lib/libc10.so" Threads::Threads)
target_compile_definitions(satformer_torch INTERFACE AT_PER_OPERATOR_HEADERS)
target_link_options(satformer_torch INTERFACE -Wl,--allow-shlib-undefined)
# A torch built for CUDA registers its device through libtorch_cuda, which nothing references by symbol. It is loaded
# only if its own libraries (cuDNN, cuBLAS, NCCL) are installed beside it, so it is opened at run time: see nn/device.
list(APPEND CMAKE_INSTALL_RPATH "${torch_dir}/lib")
