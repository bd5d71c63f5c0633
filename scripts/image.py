"""Makes a container image of Hare without a daemon. The image is an archive in the OCI
layout, which podman load, skopeo copy oci-archive:FILE and ctr images import can read.

    image.py STAGE FILE VERSION COMMIT ARCHITECTURE CERTIFICATES

The folder STAGE contains hare, lib, licenses and the rest of an archive. The image contains it, the libraries of this
machine with which it is linked, and the authorities that TLS trusts, from the unpacked wheel of certifi in the folder
CERTIFICATES; hare, which is on the PATH, has the zones of time in itself. There is nothing else: no shell and no base
image. Equal inputs give equal bytes.
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

CREATED = int(os.environ["SOURCE_DATE_EPOCH"])


def entry(tar, name, data=None, mode=0o644, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime, info.linkname = kind, mode, CREATED, link
    info.size = len(data or b"")
    tar.addfile(info, io.BytesIO(data) if data is not None else None)


def libraries(*files):
    """Returns the paths of the shared objects that the loader finds for files."""
    found = set()
    for file in files:
        for line in subprocess.run(["ldd", file], check=True, capture_output=True, text=True).stdout.splitlines():
            if "not found" in line:
                sys.exit(f"{file}: {line.strip()}")
            m = re.search(r"(/\S+) \(0x", line)
            if m:
                found.add(m[1])
    return sorted(found)


def layer(stage, certificates):
    texts = {"certifi/LICENSE": next(Path(certificates).glob("certifi-*/licenses/LICENSE"))}
    for package in ("libc6", "libgcc-s1", "libstdc++6", "zlib1g"):
        texts[package + "/copyright"] = Path("/usr/share/doc", package, "copyright")
    files = {"opt/hare/licenses/" + name: (path.read_bytes(), 0o644) for name, path in texts.items() if path.exists()}
    authorities = Path(certificates, "certifi/cacert.pem").read_bytes()
    files["etc/ssl/certs/ca-certificates.crt"] = (authorities, 0o644)
    for path in sorted(stage.rglob("*")):
        if path.is_file():
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            files["opt/hare/" + str(path.relative_to(stage))] = (path.read_bytes(), mode)
    own = str(stage.resolve())
    for lib in libraries(stage / "hare", *(stage / "lib").iterdir()):
        if not os.path.realpath(lib).startswith(own):
            files[lib.lstrip("/")] = (Path(os.path.realpath(lib)).read_bytes(), 0o755)
    files["etc/passwd"] = (b"hare:x:65532:65532::/tmp:/sbin/nologin\n", 0o644)
    folders, links = {"tmp": 0o1777}, {"usr/local/bin/hare": "/opt/hare/hare"}
    for name in [*files, *links]:
        for parent in Path(name).parents:
            if str(parent) != ".":
                folders.setdefault(str(parent), 0o755)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(folders):
            entry(tar, name, mode=folders[name], kind=tarfile.DIRTYPE)
        for name in sorted(files):
            entry(tar, name, *files[name])
        for name, to in links.items():
            entry(tar, name, mode=0o777, kind=tarfile.SYMTYPE, link=to)
    return out.getvalue()


def main(stage, target, version, commit, architecture, certificates):
    blobs = {}

    def put(data, media):
        digest = hashlib.sha256(data).hexdigest()
        blobs["blobs/sha256/" + digest] = data
        return {"mediaType": media, "digest": "sha256:" + digest, "size": len(data)}

    def document(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    tar = layer(Path(stage), certificates)
    packed = put(gzip.compress(tar, 6, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    config = put(
        document({
            "architecture": architecture,
            "os": "linux",
            "config": {
                "User": "65532:65532",
                "WorkingDir": "/tmp",
                "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
                "ExposedPorts": {"8443/tcp": {}},
                "Entrypoint": ["/opt/hare/hare"],
                "Cmd": ["serve", "--listen", "127.0.0.1:8080"],
                "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.revision": commit},
            },
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(tar).hexdigest()]},
        }),
        "application/vnd.oci.image.config.v1+json",
    )
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = put(document({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [packed]}), kind)
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}
    manifest["platform"] = {"architecture": architecture, "os": "linux"}
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as out:
        entry(out, "oci-layout", document({"imageLayoutVersion": "1.0.0"}))
        entry(out, "index.json", document({"schemaVersion": 2, "manifests": [manifest]}))
        for name in sorted(blobs):
            entry(out, name, blobs[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
