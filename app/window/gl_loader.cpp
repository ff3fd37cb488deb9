// The one file that holds glad's entry points. Its code is C of another style: quiet here, by name.
#pragma GCC diagnostic ignored "-Wpedantic"
#define GLAD_GL_IMPLEMENTATION
#include <glad/gl.h>
