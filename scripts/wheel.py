"""Makes the wheel hare-sched, which puts the binary hare on the PATH of a Python environment and needs no compiler.
The Python client of the HTTP interface is a wheel of its own, hare-client.

    wheel.py STAGE FOLDER VERSION PLATFORM

The folder STAGE is what the archive of PLATFORM (linux-amd64, …) contains: hare, lib, licenses and the rest. Equal
inputs give equal bytes.
"""

import base64
import hashlib
import os
import re
import sys
import time
import zipfile
from pathlib import Path

# A binary without cgo asks for no version of a symbol of glibc, and HiGHS for old ones; check sees to it that the tags
# stay true. Go 1.26 needs macOS 12.
TAGS = {
    "linux-amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "linux-arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "darwin-amd64": "macosx_12_0_x86_64",
    "darwin-arm64": "macosx_12_0_arm64",
}
WHEN = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]

NEWEST = {b"GLIBC": (2, 17), b"GLIBCXX": (3, 4, 19), b"CXXABI": (1, 3, 7)}


def check(path):
    """Ends the program where a file needs newer C or C++ libraries than manylinux2014 has."""
    for library, version in re.findall(rb"\0(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)(?=\0)", path.read_bytes()):
        if tuple(map(int, version.split(b"."))) > NEWEST[library]:
            sys.exit(f"{path}: needs {library.decode()} {version.decode()}, newer than manylinux2014 has")


METADATA = """\
Metadata-Version: 2.1
Name: hare-sched
Version: {version}
Summary: Schedules training jobs on clusters whose GPUs differ, with a proof of quality
License: Apache-2.0
Requires-Python: >=3.7
Description-Content-Type: text/markdown

The command `hare`, a binary without dependencies. `hare --help` says what it does.
The Python client of its HTTP interface is the package `hare-client`.
"""


def main(stage, folder, version, platform):
    stage = Path(stage)
    info, data = f"hare_sched-{version}.dist-info", f"hare_sched-{version}.data"
    files = {
        f"{data}/scripts/hare": ((stage / "hare").read_bytes(), 0o755),
        f"{info}/METADATA": (METADATA.format(version=version).encode(), 0o644),
        f"{info}/WHEEL": (
            "".join(
                ["Wheel-Version: 1.0\nGenerator: hare\nRoot-Is-Purelib: false\n"]
                + [f"Tag: py3-none-{tag}\n" for tag in TAGS[platform].split(".")]
            ).encode(),
            0o644,
        ),
    }
    # hare in bin looks for the library in lib/hare/lib.
    for path in (stage / "lib").iterdir():
        files[f"{data}/data/lib/hare/lib/{path.name}"] = (path.read_bytes(), 0o755)
    for path in [stage / "LICENSE", stage / "NOTICE", *(stage / "licenses").rglob("*")]:
        if path.is_file():
            files[f"{info}/licenses/{path.relative_to(stage)}"] = (path.read_bytes(), 0o644)
    files[f"{info}/sboms/sbom.cdx.json"] = ((stage / "sbom.cdx.json").read_bytes(), 0o644)
    if platform.startswith("linux"):
        for path in [stage / "hare", *(stage / "lib").iterdir()]:
            check(path)
    record = ""
    for name, (content, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    with zipfile.ZipFile(Path(folder) / f"hare_sched-{version}-py3-none-{TAGS[platform]}.whl", "w") as wheel:
        for name, (content, mode) in sorted(files.items(), key=lambda f: (".dist-info/" in f[0], f[0])):
            entry = zipfile.ZipInfo(name, WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            wheel.writestr(entry, content)


if __name__ == "__main__":
    main(*sys.argv[1:])
