# Run where kernels were compiled (cmake -P): writes FILE, a C++ source with what ptxas said of them (ptxas_notes.sh).
# OBJECTS: their objects, separated by |; NVCC: whether the program is built with nvcc.
string(REPLACE "|" ";" OBJECTS "${OBJECTS}")
set(_text "// Written by cmake/kernel_report.cmake.\n#include \"kernels/decode/kernel_resources.h\"\n\n")
string(APPEND _text "namespace refreshlab::kernels {\n\nconst BuiltKernels& built_kernels() {\n"
                    "    static const char* const said[] = {\n        \"\"")
foreach(_object IN LISTS OBJECTS)
    file(READ ${_object}.ptxas _said)
    string(APPEND _text ",\n        R\"ptxas(${_said})ptxas\"")
endforeach()
set(_nvcc false)
if(NVCC)
    set(_nvcc true)
endif()
string(APPEND _text "};\n    static const BuiltKernels built = [] {\n        BuiltKernels b{${_nvcc}, {}};\n"
                    "        for (const char* text : said)\n            for (KernelResources& k : parse_ptxas(text))\n"
                    "                b.kernels.push_back(std::move(k));\n        return b;\n    }();\n    return built;\n}\n\n"
                    "} // namespace refreshlab::kernels\n")
file(WRITE ${FILE} "${_text}")
