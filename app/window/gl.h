#pragma once

// OpenGL's names and entry points, for files of app/window only. Loaded by Platform::open.
#ifndef GLFW_INCLUDE_NONE
#define GLFW_INCLUDE_NONE
#endif
#include <glad/gl.h>
