"""Runs the examples of the Python and the TypeScript client and holds
docs/reference/http.md and the README of each client against them: each example stands on
one of these pages word for word, and so does what it prints.

    check_docs.py PYTHON NODE_FOLDER

HARE_URL is a server, PYTHON has hare_client, NODE_FOLDER has hare-client.
"""

import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = "/v1/solves/{id}" in json.loads((ROOT / "openapi/openapi.json").read_text())["paths"]


def indented(text):
    return "".join("    " + line if line.strip() else line for line in text.splitlines(True))


def main(python, folder):
    page = (ROOT / "docs/reference/http.md").read_text()
    folder = pathlib.Path(folder)
    instance = ROOT / "client/conformance/readme.instance.json"
    shutil.copy(instance, folder / "instance.json")
    faults = ran = 0
    if indented(instance.read_text()) not in page:
        print(f"docs/reference/http.md has another {instance.name}")
        faults += 1
    for example in sorted((ROOT / "client").glob("*/examples/*")):
        pages = page + (example.parents[1] / "README.md").read_text()
        if indented(example.read_text()) not in pages:
            print(f"neither docs/reference/http.md nor the README of the client has this {example.name}")
            faults += 1
        if example.stem == "events" and not KEPT:
            continue  # the specification has no asynchronous solves
        if example.suffix == ".py":
            command = [python, "-I", example]
        else:
            command = ["node", shutil.copy(example, folder)]
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=60)
        ran += 1
        if done.returncode or indented(done.stdout) not in pages:
            print(f"{example.name} prints, and no page has:\n{done.stdout}{done.stderr}")
            faults += 1
    print(f"{ran} examples of the clients ran")
    return faults > 0 or ran < 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
