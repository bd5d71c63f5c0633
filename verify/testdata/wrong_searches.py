"""Counts the false bounds that wrong readings of the method search prove.

    python3 wrong_searches.py FOLDER

FOLDER holds right.py, wrong.json (by name what is changed in it to what) and cases.json
(instances with certificates above their optimum). The answer is a JSON object by name; ""
is the right reading.
"""
import json
import pathlib
import sys
import types

folder = pathlib.Path(sys.argv[1])
source = (folder / "right.py").read_text()
cases = json.loads((folder / "cases.json").read_text())
out = {}
for name, (old, new) in {"": ("", ""), **json.loads((folder / "wrong.json").read_text())}.items():
    reading = types.ModuleType("reading")
    exec(compile(source.replace(old, new) if old else source, "reading", "exec"), reading.__dict__)
    out[name] = 0
    for instance, certificate in cases:
        try:
            inst = reading.Instance(reading.documents(instance))
            reading.bound_of(inst, reading.Certificate(reading.documents(certificate)[0], ""))
            out[name] += 1
        except reading.Refused:
            pass
print(json.dumps(out))
