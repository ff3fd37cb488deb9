# Dear ImGui, ImPlot, GLFW from the unpacked imgui-bundle source distribution: only the files that are needed.
set(_bundle "${REFRESHLAB_DEPS}/imgui-bundle/external")
if(NOT EXISTS "${_bundle}/imgui/imgui/imgui.h")
    message(FATAL_ERROR "imgui-bundle not found. Run scripts/setup.sh, or configure with -DREFRESHLAB_UI=OFF.")
endif()

set(GLFW_BUILD_WAYLAND OFF CACHE BOOL "" FORCE)
set(GLFW_BUILD_DOCS OFF CACHE BOOL "" FORCE)
set(GLFW_INSTALL OFF CACHE BOOL "" FORCE)
set(GLFW_BUILD_EXAMPLES OFF CACHE BOOL "" FORCE)
set(GLFW_BUILD_TESTS OFF CACHE BOOL "" FORCE)
add_subdirectory("${_bundle}/glfw/glfw" "${CMAKE_BINARY_DIR}/glfw" EXCLUDE_FROM_ALL)

# rl_imgui: shipped program. rl_imgui_tested: the same compiled for the test engine, with the engine in it. The test engine hooks into Dear
# ImGui's own sources alone, and changes no struct; the others are compiled once (rl_implot).
function(rl_imgui_options name)
    target_include_directories(${name} SYSTEM PUBLIC ${_bundle}/imgui/imgui ${_bundle}/imgui/imgui/misc/cpp
        ${_bundle}/imgui/imgui/backends ${_bundle}/implot/implot)
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_compile_definitions(${name} PUBLIC IMGUI_USER_CONFIG="ui/imgui_user_config.h")
    target_link_libraries(${name} PUBLIC glfw)
    target_compile_options(${name} PRIVATE -w)
    if(REFRESHLAB_SANITIZE) # what we call it with is looked at, not its own code: that would double the time
        target_compile_options(${name} PRIVATE -fno-sanitize=all)
    endif()
endfunction()
add_library(rl_implot OBJECT EXCLUDE_FROM_ALL ${_bundle}/implot/implot/implot.cpp ${_bundle}/implot/implot/implot_items.cpp
    ${_bundle}/imgui/imgui/misc/cpp/imgui_stdlib.cpp
    ${_bundle}/imgui/imgui/backends/imgui_impl_glfw.cpp ${_bundle}/imgui/imgui/backends/imgui_impl_opengl3.cpp)
rl_imgui_options(rl_implot)
function(rl_imgui_library name)
    add_library(${name} STATIC EXCLUDE_FROM_ALL
        ${_bundle}/imgui/imgui/imgui.cpp ${_bundle}/imgui/imgui/imgui_draw.cpp
        ${_bundle}/imgui/imgui/imgui_tables.cpp ${_bundle}/imgui/imgui/imgui_widgets.cpp
        ${_bundle}/imgui/imgui/imgui_stacklayout.cpp $<TARGET_OBJECTS:rl_implot> ${ARGN})
    rl_imgui_options(${name})
endfunction()
rl_imgui_library(rl_imgui)

if(REFRESHLAB_TESTS)
    set(_te "${_bundle}/imgui_test_engine/imgui_test_engine/imgui_test_engine")
    rl_imgui_library(rl_imgui_tested ${_te}/imgui_te_context.cpp ${_te}/imgui_te_coroutine.cpp ${_te}/imgui_te_engine.cpp
        ${_te}/imgui_te_exporters.cpp ${_te}/imgui_te_perftool.cpp ${_te}/imgui_te_ui.cpp ${_te}/imgui_te_utils.cpp
        ${_te}/imgui_capture_tool.cpp)
    target_include_directories(rl_imgui_tested SYSTEM PUBLIC ${_te}/.. ${_te})
    target_compile_definitions(rl_imgui_tested PUBLIC IMGUI_ENABLE_TEST_ENGINE
        IMGUI_TEST_ENGINE_ENABLE_COROUTINE_STDTHREAD_IMPL=1)
endif()
