# libtorch as one interface target, rl_torch.
#
# Own target instead of find_package(Torch): the CUDA wheel's own configuration insists on a CUDA toolkit and probes for
# a GPU at configure time, and RefreshLab must build on machines with neither. -DTorch_DIR=<...>/share/cmake/Torch wins
# over the private venv, as it would for find_package.
if(Torch_DIR)
    get_filename_component(REFRESHLAB_TORCH_ROOT "${Torch_DIR}/../../.." ABSOLUTE)
else()
    file(GLOB _torch_roots "${REFRESHLAB_DEPS}/venv/lib/python3*/site-packages/torch")
    if(_torch_roots)
        list(GET _torch_roots 0 REFRESHLAB_TORCH_ROOT)
    endif()
endif()
if(NOT EXISTS "${REFRESHLAB_TORCH_ROOT}/include/ATen/ATen.h")
    message(FATAL_ERROR "libtorch not found. Run scripts/setup.sh, or pass -DTorch_DIR=<libtorch>/share/cmake/Torch.")
endif()
message(STATUS "libtorch: ${REFRESHLAB_TORCH_ROOT}")

add_library(rl_torch INTERFACE)
target_include_directories(rl_torch SYSTEM INTERFACE "${REFRESHLAB_TORCH_ROOT}/include")
target_link_directories(rl_torch INTERFACE "${REFRESHLAB_TORCH_ROOT}/lib")
target_link_libraries(rl_torch INTERFACE torch_cpu c10)
list(APPEND CMAKE_BUILD_RPATH "${REFRESHLAB_TORCH_ROOT}/lib") # what is installed finds it in its own place (python/CMakeLists.txt)

if(REFRESHLAB_CUDA)
    set(CMAKE_CUDA_COMPILER "${REFRESHLAB_NVCC}" CACHE FILEPATH "")
    # nvcc 13 speaks C++20; CMake 3.25 does not know that yet.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    # Each architecture compiles every kernel once more, so a developer builds one: the GPU's own, or PTX where there is no
    # GPU (the driver compiles it at the first start, for anything from Ampere on). "all" is for releases; CI takes
    # some of them for each commit.
    set(REFRESHLAB_CUDA_ARCHITECTURES "auto" CACHE STRING "auto, all, or a list as in CMAKE_CUDA_ARCHITECTURES")
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
        if(REFRESHLAB_CUDA_ARCHITECTURES STREQUAL "all")
            # Code of x.0 runs on every x.y (CUDA programming guide, binary compatibility), so 80 is 86 and 89 too. The last one as PTX as
            # well, for what comes later.
            set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 120)
        elseif(NOT REFRESHLAB_CUDA_ARCHITECTURES STREQUAL "auto")
            set(CMAKE_CUDA_ARCHITECTURES ${REFRESHLAB_CUDA_ARCHITECTURES})
        elseif(EXISTS /dev/nvidia0)
            set(CMAKE_CUDA_ARCHITECTURES native)
        else()
            set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
        endif()
    endif()
    message(STATUS "CUDA architectures: ${CMAKE_CUDA_ARCHITECTURES}")
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    find_package(CUDAToolkit REQUIRED)
    # libtorch_cuda, half of libtorch's loading time, is loaded where there is a GPU (kernels/execution/cuda_devices.h).
    target_link_libraries(rl_torch INTERFACE c10_cuda ${CMAKE_DL_LIBS})
    target_include_directories(rl_torch SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_definitions(rl_torch INTERFACE REFRESHLAB_CUDA=1)
endif()
