# Run at every build (cmake -P): writes the commit into FILE, and touches FILE only where it changed.
# SOURCE: the repository; FILE: the header.
execute_process(COMMAND git describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE _commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(_text "#define RL_COMMIT \"${_commit}\"\n")
if(EXISTS ${FILE})
    file(READ ${FILE} _old)
endif()
if(NOT "${_old}" STREQUAL "${_text}")
    file(WRITE ${FILE} "${_text}")
endif()
