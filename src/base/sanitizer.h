// Which sanitizer this translation unit is built with; g++ and clang say it in different ways.
#pragma once

#if defined(__has_feature)
#define WB_HAS_FEATURE(name) __has_feature(name)
#else
#define WB_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_THREAD__) || WB_HAS_FEATURE(thread_sanitizer)
#define WB_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__) || WB_HAS_FEATURE(address_sanitizer)
#define WB_ASAN 1
#endif
