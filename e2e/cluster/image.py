#!/usr/bin/env python3
"""image.py OUT.tar NAME:TAG ENTRYPOINT(json) path=file ...: one image of one layer as an OCI archive, without a container tool.

Equal files make equal bytes. USER_ID, if set, becomes the image's user."""
import gzip, hashlib, io, json, os, sys, tarfile


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer_of(files):
    """One tar of `path=file` pairs, with the folders above each."""
    out, seen = io.BytesIO(), set()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for spec in files:
            path, source = spec.split("=", 1)
            path = path.lstrip("/")
            parts = path.split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                folder = "/".join(parts[:depth])
                if folder not in seen:
                    seen.add(folder)
                    info = tarfile.TarInfo(folder)
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(info)
            info = tarfile.TarInfo(path)
            info.size, info.mode = os.path.getsize(source), 0o755
            with open(source, "rb") as data:
                tar.addfile(info, data)
    return out.getvalue()


def main(out, name, entry, *files):
    layer = layer_of(files)
    packed = gzip.compress(layer, 1, mtime=0)
    config = {"Entrypoint": json.loads(entry), "Env": ["PATH=/bin"]}
    if os.environ.get("USER_ID"):
        config["User"] = os.environ["USER_ID"]
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = json.dumps({"architecture": architecture, "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}).encode()
    kind = "application/vnd.oci.image."
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
        "config": {"mediaType": kind + "config.v1+json", "digest": digest(config), "size": len(config)},
        "layers": [{"mediaType": kind + "layer.v1.tar+gzip", "digest": digest(packed), "size": len(packed)}]}).encode()
    index = json.dumps({"schemaVersion": 2, "mediaType": kind + "index.v1+json", "manifests": [
        {"mediaType": kind + "manifest.v1+json", "digest": digest(manifest), "size": len(manifest),
         "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rsplit(":", 1)[1]}}]}).encode()
    with tarfile.open(out + ".new", "w") as tar:
        def add(path, data):
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add("index.json", index)
        for blob in (config, manifest, packed):
            add("blobs/sha256/" + digest(blob)[7:], blob)
    os.replace(out + ".new", out)
    print(f"{name} {digest(manifest)} {len(packed) // 1024} KiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
