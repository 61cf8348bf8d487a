#!/bin/bash
# images/build.sh NAME...: makes target/images/NAME.tar (OCI archive) of operator, router, agent, agent-cuda or fixture from
# images/NAME.files, without a container tool. `--no-build` takes the programs that are there. TAG overrides the git revision.
set -euo pipefail
cd "$(dirname "$0")/.."
build=1; [ "${1:-}" = --no-build ] && { build=; shift; }
[ $# -gt 0 ] || set -- operator router agent
TAG=${TAG:-$(git rev-parse --short=12 HEAD)}
musl=x86_64-unknown-linux-musl
if [ -n "$build" ]; then # --workspace: the same features as every other build, so that nothing is compiled twice
  static=(); for name in "$@"; do case $name in agent*) ;; *) static+=(--bin "terrace-$name") ;; esac; done
  [ ${#static[@]} = 0 ] || cargo build --release --workspace --target $musl "${static[@]}"
  # Before the plain agent, whose name its program has.
  [[ " $* " != *" agent-cuda "* ]] || { scripts/gpu.sh --program; images/cuda-parts.sh; }
  [[ " $* " != *" agent "* ]] || cargo build --release --workspace --bin terrace-agent
fi
out=target/images; mkdir -p $out
for name in "$@"; do
  files=()
  while read -r path source; do
    [ -e "$source" ] || { echo "images/build.sh: $source is not there; images/$name.files names it: run without --no-build, on Debian 12" >&2; exit 1; }
    case $path in /bin/terrace-*) program=$path; strip -o "$out/terrace-$name" "$source"; source=$out/terrace-$name ;; esac
    if [ -d "$source" ]; then while read -r file; do files+=("$path/$file=$source/$file"); done < <(cd "$source" && find . -type f -printf '%P\n' | sort)
    else files+=("$path=$source"); fi
  done < <(sed 's/#.*//; /^\s*$/d' "images/$name.files")
  # Every library that the program asks for is in the image.
  for library in $(ldd "$out/terrace-$name" 2>/dev/null | grep -o '/[^ ]*' || true); do
    [[ " ${files[*]} " == *" $library="* ]] || { echo "images/build.sh: terrace-$name needs $library; add it to images/$name.files and images/$name.Dockerfile" >&2; exit 1; }
  done
  USER_ID=65532:65532 python3 e2e/cluster/image.py "$out/$name.tar" "localhost/terrace-$name:$TAG" "[\"$program\"]" "${files[@]}"
done
