// Loops that are compiled for several generations of processors, of which the program takes the best that is there. Nothing that is
// multiplied and added belongs in them: newer processors would round once where others round twice.
#pragma once

#include <cstdint>

// Sanitizers' runtimes are not there yet when the program is told which one it gets.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define HINTERLAND_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), noinline))
#else
#define HINTERLAND_CLONES
#endif
