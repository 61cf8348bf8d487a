#!/bin/bash
# Puts NVRTC and the CUDA headers of images/agent-cuda.requirements into target/images/cuda, from their packages on PyPI (85 MiB).
# What is there of the same versions stays.
set -euo pipefail
cd "$(dirname "$0")/.."
out=target/images/cuda; list=images/agent-cuda.requirements
stamp=$(sha256sum $list | cut -d' ' -f1)
[ "$(cat $out/stamp 2>/dev/null)" != "$stamp" ] || exit 0
rm -rf $out; mkdir -p $out/wheels
python3 -m pip --quiet --disable-pip-version-check download --no-deps --only-binary :all: --require-hashes --dest $out/wheels -r $list \
  || { echo "images/cuda-parts.sh: PyPI gave not what $list asks for; check the network, and that this machine is x86-64" >&2; exit 1; }
python3 - $out <<'P'
import glob, os, sys, zipfile
out = sys.argv[1]
for path in glob.glob(out + "/wheels/*.whl"):
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            place = None
            if name.startswith("nvidia/cuda_runtime/include/") and not name.endswith(("/", ".py")):
                place = name.removeprefix("nvidia/cuda_runtime/")
            elif os.path.basename(name) in ("libnvrtc.so.12", "libnvrtc-builtins.so.12.8"):
                place = os.path.basename(name)
            if place:
                os.makedirs(os.path.dirname(f"{out}/{place}"), exist_ok=True)
                with open(f"{out}/{place}", "wb") as file:
                    file.write(wheel.read(name))
P
rm -rf $out/wheels; echo "$stamp" > $out/stamp
