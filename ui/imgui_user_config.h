#pragma once

// Compiled into ImGui, ImPlot and everything that includes them (IMGUI_USER_CONFIG).
#define ImDrawIdx unsigned int // more than 65,536 vertices in one list
#define IMGUI_USE_WCHAR32      // emoji and other code points above U+FFFF in model text
#define IMGUI_DISABLE_OBSOLETE_FUNCTIONS

// Plots are drawn from these only; each further type costs seconds of every build.
#define IMPLOT_CUSTOM_NUMERIC_TYPES (float)(double)
