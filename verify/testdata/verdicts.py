"""Runs hare_verify.py on many files in one process.

    python3 verdicts.py FOLDER

FOLDER holds hare_verify.py. Each line of standard input is a JSON array, the
arguments of one call; for each, a line of standard output is a JSON object with
the exit code and what was printed.
"""
import contextlib
import io
import json
import sys
import traceback

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import hare_verify  # noqa: E402

for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = hare_verify.main(json.loads(line))
        except SystemExit as e:
            code = e.code
        except BaseException:  # a defect: it is told, and the next file has its turn
            code = -1
            traceback.print_exc()
    print(json.dumps({"code": code, "said": said.getvalue()[:2000]}), flush=True)
