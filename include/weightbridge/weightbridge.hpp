// The C++20 face of WeightBridge: header-only, over the C ABI of weightbridge.h, so it works with
// any compiler and standard library. What a call does, its units, threads and errors: see the C
// call of the same name there.
//
// Errors. Calls return Status or Result<T>, which cannot be ignored. Two styles, one interface:
//   auto job = weightbridge::Job::open(options, 10s).value();   // throws weightbridge::Error
//   if (auto status = publisher.publish(7); !status.ok()) ...   // no exceptions
// With -fno-exceptions value() and or_throw() print the error and abort.
//
// Ownership. Handles are movable and close themselves: bounded by kCloseTimeout, in the right
// order whatever order they are destroyed in. Call close() to hear of errors.
#ifndef WEIGHTBRIDGE_WEIGHTBRIDGE_HPP
#define WEIGHTBRIDGE_WEIGHTBRIDGE_HPP

#include <weightbridge/errors.hpp>
#include <weightbridge/job.hpp>
#include <weightbridge/layout.hpp>
#include <weightbridge/memory.hpp>
#include <weightbridge/probe.hpp>
#include <weightbridge/publisher.hpp>
#include <weightbridge/receiver.hpp>
#include <weightbridge/table.hpp>
#include <weightbridge/types.hpp>

#endif
