#!/bin/bash
# Debian packages that `make test` needs; what is there is not touched. Without root it only says what is missing.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
missing=()
need() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed' || missing+=("$1"); }
have() { command -v "$1" > /dev/null || need "$2"; } # a program from elsewhere counts
have cc build-essential; have curl curl; have git git; have openssl openssl; have strip binutils
have python3 python3; python3 -c 'import venv, ensurepip' 2>/dev/null || need python3-venv; python3 -m pip --version > /dev/null 2>&1 || need python3-pip
have node nodejs; have npm npm
need musl-tools
need libvulkan1; need mesa-vulkan-drivers # Vulkan in software: the GPU's kernels are tested on it
if [ "$(id -u)" = 0 ]; then for p in runc iptables conntrack iproute2 containernetworking-plugins nftables ethtool socat util-linux procps; do need $p; done; fi
[ ${#missing[@]} = 0 ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
  echo "packages.sh: not installed: ${missing[*]}. As root on Debian 12 this installs them: apt-get install -y --no-install-recommends ${missing[*]}" >&2; exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
