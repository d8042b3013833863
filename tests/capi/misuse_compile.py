"""Misuse of weightbridge.hpp does not compile. All cases are compiled together twice: as they should
be (which must work, or the cases prove nothing) and with their mistakes, each of which must be
refused on its own line for its own reason."""

import re
import subprocess
import sys

include, compilers = sys.argv[1], sys.argv[2].split()

PROLOGUE = """#include <weightbridge/weightbridge.hpp>
#include <utility>
namespace wb = weightbridge;
using namespace std::chrono_literals;
"""
FUNCTION = """#line %d
void case_%d(wb::Job& job, wb::Layout& layout, wb::Publisher& publisher, wb::Receiver& receiver) { \
(void)job; (void)layout; (void)publisher; (void)receiver; %s }
"""
FIRST = 1000  # line numbers that nothing else in the file has

# (right, wrong, words of the diagnostic)
CASES = [
    ("wb::Publisher other = std::move(publisher);", "wb::Publisher other = publisher;", "deleted"),
    ("wb::Receiver other = std::move(receiver);", "wb::Receiver other = receiver;", "deleted"),
    ("wb::Layout other = std::move(layout);", "wb::Layout other = layout;", "deleted"),
    ("publisher.publish(1).or_throw();", "publisher.publish(1);", "nodiscard"),
    ("(void)receiver.pull(wb::latest, 1s);", "receiver.pull(wb::latest, 1s);", "nodiscard"),
    ("(void)receiver.pull(wb::exactly(7), 1s);", "(void)receiver.pull(7, 1s);", "Want|conver"),
    ("(void)receiver.pull(wb::latest, 1s);", "(void)receiver.pull(wb::latest, 1);", "conver|Timeout|duration"),
    ("(void)layout.check(wb::Role::kSource);", "(void)layout.check(WB_SOURCE);", "conver|Role"),
    ("(void)wb::Publisher::create(job, layout, {}, 1s);",
     "(void)wb::Publisher::create(layout, job, {}, 1s);", "conver|Job|matching"),
]


def compile_all(compiler, bodies):
    text = PROLOGUE + "".join(
        FUNCTION % (FIRST + i, i, body) for i, body in enumerate(bodies)
    )
    command = [compiler, "-xc++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
               f"-I{include}", "-"]
    return subprocess.run(command, input=text, text=True, stderr=subprocess.PIPE)


failed = 0
for compiler in compilers:
    good = compile_all(compiler, [right for right, _, _ in CASES])
    if good.returncode != 0:
        print(f"{compiler} refuses right code:\n{good.stderr}")
        failed += 1
    bad = compile_all(compiler, [wrong for _, wrong, _ in CASES])
    for i, (_, wrong, words) in enumerate(CASES):
        errors = re.findall(rf"^<stdin>:{FIRST + i}:\d+: error: (.*)$", bad.stderr, re.MULTILINE)
        if not any(re.search(words, error) for error in errors):
            print(f"{compiler} does not refuse for {words}: {wrong}\n{errors}")
            failed += 1
print(f"{len(CASES)} cases, {len(compilers)} compilers, {failed} failed")
sys.exit(failed != 0)
