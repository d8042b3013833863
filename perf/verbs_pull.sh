#!/bin/sh
# The verbs transport against ib_read_bw with the same devices, queue pairs and read size, in turn:
#   perf/verbs_pull.sh BUILD_DIR SOURCE_DEVICE READER_DEVICE [SIZE [ROUNDS [QUEUE_PAIRS]]]
# Medians and bests of the rounds: on a busy machine a round may meet the timer for lost packets, and takes
# several times as long.
set -eu
build=$1
source=$2
reader=$3
size=${4:-1048576}
rounds=${5:-5}
pairs=${6:-1}
mib=${VERBS_PULL_MIB:-32}
reads=$((mib * 1048576 / size))
[ "$reads" -ge 5 ] || reads=5 # ib_read_bw's least
port=$((20000 + $$ % 20000))

# GID index of the device's RoCE v2 IPv4 address.
gid_index() {
  for type in /sys/class/infiniband/"$1"/ports/1/gid_attrs/types/*; do
    [ "$(cat "$type" 2>/dev/null)" = "RoCE v2" ] || continue
    index=${type##*/}
    case $(cat /sys/class/infiniband/"$1"/ports/1/gids/"$index") in
      0000:0000:0000:0000:0000:ffff:*) echo "$index" && return ;;
    esac
  done
  echo 0
}

read_bw() {
  ib_read_bw -d "$source" -x "$(gid_index "$source")" -s "$size" -n "$reads" -q "$pairs" -p "$port" \
    >/dev/null 2>&1 &
  server=$!
  sleep 1
  # size, iterations, peak and average MB/s of 2^20 bytes.
  ib_read_bw -d "$reader" -x "$(gid_index "$reader")" -s "$size" -n "$reads" -q "$pairs" -p "$port" \
    127.0.0.1 2>/dev/null | awk -v size="$size" '$1 == size { printf "%.4f\n", $4 * 1048576 / 1e9 }'
  wait "$server" || true
}

best() { sort -n | tail -n 1; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

ours=$(mktemp)
theirs=$(mktemp)
trap 'rm -f "$ours" "$theirs"' EXIT
for round in $(seq "$rounds"); do
  pulled=$("$build/perf/verbs_pull" --source="devices=$source" \
    --reader="devices=$reader,queue_pairs=$pairs" --size="$size" --mib="$mib" --samples=1)
  tested=$(read_bw)
  echo "round $round: $pulled; ib_read_bw $tested GB/s"
  echo "$pulled" | awk '{ print $1 }' >>"$ours"
  echo "$tested" >>"$theirs"
done
ratio() { awk "BEGIN { printf \"%.2f\", $1 / $2 }"; }
for what in median best; do
  a=$($what <"$ours")
  b=$($what <"$theirs")
  echo "$size bytes a read, $pairs queue pair(s), $what of $rounds: verbs_pull $a GB/s, ib_read_bw $b GB/s," \
    "ratio $(ratio "$a" "$b")"
done
