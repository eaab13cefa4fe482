# Engines that ranks talk through. Open MPI for CPU ranks, where it is installed: its C interface alone.
option(SATFORMER_MPI "Ranks started by mpirun and srun talk through MPI (needs libopenmpi-dev; off where it is missing)" ON)
if(SATFORMER_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS C)
endif()
if(MPI_C_FOUND)
  # By name and not as an imported target, so that the installed package needs no MPI of CMake's.
  set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/distributed/mpi_communicator.cpp" PROPERTIES
    COMPILE_DEFINITIONS SATFORMER_MPI INCLUDE_DIRECTORIES "${MPI_C_INCLUDE_DIRS}")
  target_link_libraries(satformer_distributed PUBLIC ${MPI_C_LIBRARIES})
else()
  message(STATUS "MPI: off; torchrun can start CPU ranks all the same")
endif()

# NCCL for ranks on GPUs, in a module that the program loads when it is asked for them: it links libtorch_cuda.
find_path(SATFORMER_NCCL_INCLUDE nccl.h HINTS "${torch_dir}/../nvidia/nccl/include" /usr/local/cuda/include)
if(SATFORMER_CUDA AND SATFORMER_NCCL_INCLUDE)
  add_library(satformer_nccl MODULE "${CMAKE_CURRENT_SOURCE_DIR}/distributed/nccl/nccl_communicator.cpp")
  set_target_properties(satformer_nccl PROPERTIES PREFIX "" OUTPUT_NAME satformer-nccl
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
  target_compile_definitions(satformer_nccl PRIVATE USE_C10D_NCCL)
  target_link_libraries(satformer_nccl PRIVATE satformer_options satformer_torch
    "${torch_dir}/lib/libtorch_cuda.so" "${torch_dir}/lib/libc10_cuda.so")
  target_include_directories(satformer_nccl SYSTEM PRIVATE
    "${SATFORMER_NCCL_INCLUDE}" ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_options(satformer_nccl PRIVATE -Wl,--no-as-needed)
elseif(SATFORMER_CUDA)
  message(STATUS "NCCL: off, no nccl.h; ranks can compute on CPUs alone")
endif()
