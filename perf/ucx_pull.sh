#!/bin/sh
# The ucx transport against ucx_perftest's ucp_get of the same size and transports, in turn:
#   perf/ucx_pull.sh BUILD_DIR [TLS [SIZE [ROUNDS]]]
# Medians of the rounds. ucx_perftest keeps one read in flight unless told otherwise; here as many
# as the transport does.
set -eu
build=$1
tls=${2:-tcp}
size=${3:-1048576}
rounds=${4:-5}
window=64
reads=$((256 * 1048576 / size))
port=$((20000 + $$ % 20000))

perftest() {
  UCX_TLS=$tls ucx_perftest -t ucp_get -s "$size" -n "$reads" -p "$port" >/dev/null 2>&1 &
  server=$!
  sleep 1
  # The last line but its label: count, three latencies, two bandwidths in MiB/s, two rates.
  UCX_TLS=$tls ucx_perftest 127.0.0.1 -t ucp_get -s "$size" -n "$reads" -w 16 -O $window \
    -p "$port" 2>/dev/null | awk '/^Final:/ { printf "%.3f\n", $7 * 1048576 / 1e9 }'
  wait "$server" || true
}

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

ours=$(mktemp)
theirs=$(mktemp)
trap 'rm -f "$ours" "$theirs"' EXIT
for round in $(seq "$rounds"); do
  pulled=$("$build/perf/ucx_pull" --tls="$tls" --size="$size" --samples=3)
  tested=$(perftest)
  echo "round $round: $pulled; ucx_perftest $tested GB/s"
  echo "$pulled" | awk '{ print $1 }' >>"$ours"
  echo "$tested" >>"$theirs"
done
a=$(median <"$ours")
b=$(median <"$theirs")
echo "UCX_TLS=$tls, $size bytes a read, median of $rounds: ucx_pull $a GB/s, ucx_perftest $b GB/s," \
  "ratio $(awk "BEGIN { printf \"%.2f\", $a / $b }")"
