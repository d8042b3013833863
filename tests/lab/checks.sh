# How the scripts that run in the lab's guest report: one line per check, and the counts as the last line, which
# tools/test reads. Sourced, not run.
# shellcheck shell=bash
passed=0 failed=0 skipped=0

# check NAME COMMAND...: one check; what it prints is shown when it fails. At most CHECK_SECONDS (60) of it.
check() {
  local name=$1 output begin=$SECONDS code=0
  shift
  output=$(timeout -k 5 "${CHECK_SECONDS:-60}" bash -c '"$@"' check "$@" 2>&1) || code=$?
  if [ $code -eq 0 ]; then
    passed=$((passed + 1))
    printf 'ok %s (%d s)\n' "$name" $((SECONDS - begin))
  else
    failed=$((failed + 1))
    printf 'FAILED %s (status %d, %d s)\n%s\n' "$name" $code $((SECONDS - begin)) "$(tail -n 40 <<<"$output")"
  fi
}

skip() { # NAME WHY
  skipped=$((skipped + 1))
  printf 'skipped %s: %s\n' "$1" "$2"
}

# add_counts FILE: those of a script whose last line has them; a script that ended without is a failure.
add_counts() {
  local line
  line=$(tail -n 1 "$1")
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + BASH_REMATCH[3]))
  else
    failed=$((failed + 1))
    printf 'FAILED %s ended without its counts\n' "$1"
  fi
}

summary() {
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ]
}
