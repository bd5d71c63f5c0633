"""python -m hare_worker.check MODULE: runs rounds of a job without an agent, and says whether its
tasks can be moved between devices: whether each task gives the same gradient, bit for bit, when it
is computed again, in another order, from a copy of the state."""

import argparse
import os
import sys

from . import backend, serve


def main():
    parser = argparse.ArgumentParser(prog="python -m hare_worker.check", description=__doc__)
    parser.add_argument("module", help="the name of the module, without .py")
    parser.add_argument("--directory", default=".", help="the folder that has the module (.)")
    parser.add_argument("--tasks", type=int, default=4, help="tasks of a round (4)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--seed", type=int, default=0, help="the job's seed (0)")
    arguments = parser.parse_args()
    if arguments.tasks < 1 or arguments.rounds < 1:
        parser.error("--tasks and --rounds must be at least 1")
    try:
        return check(arguments)
    except Exception as e:
        print(f"{arguments.module}: {serve.reason_of(e)}", file=sys.stderr)
        return 1


def check(arguments):
    module = serve.load_module(arguments.module, os.path.abspath(arguments.directory))
    job = backend.load_backend(module, backend.Options(arguments.tasks, arguments.seed))
    state = bytearray(job.state_bytes)
    first, again = ([bytearray(job.gradient_bytes) for _ in range(arguments.tasks)] for _ in range(2))
    views = [memoryview(g) for g in first]
    differ = []
    for round_ in range(arguments.rounds):
        job.save(memoryview(state))
        losses = [job.gradient(round_, task, views[task]) for task in range(arguments.tasks)]
        for task in reversed(range(arguments.tasks)):
            job.drop()
            job.load(memoryview(state))
            job.gradient(round_, task, memoryview(again[task]))
            if first[task] != again[task]:
                differ.append((round_, task))
        job.step(views)
        print(f"round {round_}: loss {sum(losses) / len(losses):.6g}")
    if differ:
        round_, task = differ[0]
        print(f"{arguments.module}: task {task} of round {round_} gives another gradient when it is computed again, "
              f"and so do {len(differ) - 1} more: batch() or loss() depends on what ran before", file=sys.stderr)
        return 1
    print(f"{arguments.rounds * arguments.tasks} tasks gave the same gradients twice; the state has "
          f"{job.state_bytes} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
