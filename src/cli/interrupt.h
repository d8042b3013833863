// SIGINT and SIGTERM as a wish to end: a command that waits is woken and closes in order; one that
// is deep inside a call is ended after a short grace.
#pragma once

#include <chrono>

namespace wb::cli {

// Call first in a command, before any thread is started: blocks the signals in this thread and all
// later ones, and starts the thread that takes them.
void catch_interrupts();

bool interrupted();

// Sleeps; true when a signal came, at once or meanwhile.
bool wait_for_interrupt(std::chrono::duration<double> span);
// Sleeps until a signal comes.
void wait_for_interrupt();

}  // namespace wb::cli
