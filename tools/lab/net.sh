# The lab's networks, made once by tools/lab/guest and mended by tools/lab/fault. Sourced, not run.
# shellcheck shell=bash
#
# dummy: device rxeI on rdI, 10.77.I.1. Packets to the own address never leave rxe.
# pair:  devices rxaI and rxbI on the ends raI and rbI of a link, 10.78.I.1 and 10.78.I.2. rxe 6.1 works in the
#        first network namespace only, so both ends share it; rules and tables of their own send what one end
#        sends to the other out of its device, where the kernel would short-cut it over lo.

make_dummy() { # RAIL
  ip link add "rd$1" address "02:00:00:77:0$1:01" type dummy
  ip addr add "10.77.$1.1/24" dev "rd$1"
  ip link set "rd$1" mtu 4200 up
  rdma link add "rxe$1" type rxe netdev "rd$1"
}

# The other end, this end's number and the other's.
set_end() { # a|b
  if [ "$1" = a ]; then other=b me=1 peer=2; else other=a me=2 peer=1; fi
}

# What the kernel forgets when an end goes down: the way to the other end. Both ends must be up.
connect_end() { # END RAIL
  local other me peer
  set_end "$1"
  ip neigh replace "10.78.$2.$peer" lladdr "$(<"/sys/class/net/r$other$2/address")" dev "r$1$2" nud permanent
  ip route replace "10.78.$2.$peer" dev "r$1$2" src "10.78.$2.$me" table $((100 + 2 * $2 + me))
}

make_pair() { # RAIL
  local end other me peer
  ip link add "ra$1" address "02:00:00:78:0$1:01" type veth peer name "rb$1" address "02:00:00:78:0$1:02"
  for end in a b; do
    set_end $end
    echo 0 >"/proc/sys/net/ipv4/conf/r$end$1/rp_filter"
    ip addr add "10.78.$1.$me/32" dev "r$end$1"
    ip link set "r$end$1" mtu 4200 up
    ip rule add pref 10 iif "r$end$1" lookup local
    ip rule add pref 20 from "10.78.$1.$me" to "10.78.$1.$peer" lookup $((100 + 2 * $1 + me))
  done
  for end in a b; do
    connect_end $end "$1"
    rdma link add "rx$end$1" type rxe netdev "r$end$1"
  done
}

make_network() { # dummy|pair RAILS
  local rail
  ip link set lo up
  if [ "$1" = pair ]; then
    echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    ip rule add pref 1000 lookup local
  fi
  for ((rail = 0; rail < $2; rail++)); do "make_$1" $rail; done
  if [ "$1" = pair ]; then ip rule del pref 0; fi
}
