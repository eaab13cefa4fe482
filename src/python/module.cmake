# The Python module satformer._satformer, for the Python of SATFORMER_PYTHON_EXECUTABLE and the torch that it imports.
find_package(Python3 REQUIRED COMPONENTS Interpreter Development.Module)
set(torch_python "${torch_dir}/lib/libtorch_python.so")
if(NOT EXISTS "${torch_python}")
  message(FATAL_ERROR "SATFORMER_PYTHON needs a whole torch package: there is no ${torch_python}")
endif()
file(GLOB python_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/python/*.cpp")
Python3_add_library(satformer_python MODULE WITH_SOABI ${python_sources})
set_target_properties(satformer_python PROPERTIES OUTPUT_NAME _satformer CXX_VISIBILITY_PRESET hidden
  INSTALL_RPATH "$ORIGIN/../torch/lib" BUILD_WITH_INSTALL_RPATH ON)
target_compile_definitions(satformer_python PRIVATE SATFORMER_VERSION="${PROJECT_VERSION}" TORCH_EXTENSION_NAME=_satformer)
# Other modules of the process may hold other versions of what is linked in.
target_link_options(satformer_python PRIVATE -Wl,--exclude-libs,ALL)
target_link_libraries(satformer_python PRIVATE satformer_options satformer_infer satformer_checkpoint satformer_io
  "${torch_python}")
# Python's own headers and torch's are not ours to warn about.
target_include_directories(satformer_python SYSTEM PRIVATE "${torch_dir}/include")
install(TARGETS satformer_python LIBRARY DESTINATION satformer COMPONENT python)
