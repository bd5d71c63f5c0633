"""CP-SAT beside Hare: one instance and one model, as JSON on standard input.

Input: {"model", "limit_s", "workers", "seed", "gpus": [GPUs of type k], "jobs":
[{"w", "a", "R", "K", "sync", "on": [[p, s] of type k, or null]}]}, times and
weights as integers. The limit is for building the model and solving it.

Output: {"status", "seconds", "bound", "blocks"}: a block [job, type, start,
first round, rounds, GPUs, tasks] is that many rounds back to back on that many
GPUs, with so many tasks a round; bound is on the sum of w C.

Models, by the rule of the job:
  tasks   relaxed: an optional interval for each task and type. All plans.
  blocks  relaxed: for each round and type two blocks, each of a variable number
          of tasks side by side; more where the GPUs are fewer than the tasks.
  rounds  relaxed: one type a round, on as many GPUs as it has or needs.
  whole   gang, rigid: an optional interval for each job and type. All plans of
          rigid jobs; gang jobs as if they were rigid.
  split   gang: whole, or two such segments with a variable number of rounds.
Mixed instances take "rounds" with "split" and "whole".
"""

import json
import sys
import time

from ortools.sat.python import cp_model


class OutOfTime(Exception):
    """The model is not built within the limit."""


class Builder:
    def __init__(self, data, deadline):
        self.m = cp_model.CpModel()
        self.gpus = data["gpus"]
        self.jobs = data["jobs"]
        self.deadline = deadline
        # A best plan ends by then: one job after the other, each alone on its
        # best type, is a plan, and a last job that ends later can be put there.
        self.horizon = max(j["a"] for j in self.jobs) + sum(min(
            j["R"] * (-(-j["K"] // g) * p + s) for g, (p, s) in self.types(j)) for j in self.jobs)
        self.load = [([], []) for _ in self.gpus]  # intervals and demands of each type
        self.blocks = []  # (is it there, job, type, start, first round, rounds, GPUs, tasks)
        self.ends = []
        for number, job in enumerate(self.jobs):
            self.ends.append(self.m.new_int_var(job["a"], self.horizon, ""))
            model = data["model"]
            if job["sync"] == "rigid":
                self.whole(number, job)
            elif job["sync"] == "gang":
                (self.whole if model == "whole" else self.split)(number, job)
            else:
                {"tasks": self.tasks, "blocks": self.variable}.get(model, self.rounds)(number, job)
        for g, (intervals, demands) in zip(self.gpus, self.load):
            self.m.add_cumulative(intervals, demands, g)
        self.check()
        self.m.minimize(sum(j["w"] * c for j, c in zip(self.jobs, self.ends)))

    def types(self, job):
        """(GPUs, (p, s)) of each type that the job can run on."""
        return [(g, on) for g, on in zip(self.gpus, job["on"]) if on and (job["sync"] == "relaxed" or job["K"] <= g)]

    def modes(self, job):
        """The same with the number of the type in front."""
        return [(k, g, on) for k, (g, on) in enumerate(zip(self.gpus, job["on"]))
                if on and (job["sync"] == "relaxed" or job["K"] <= g)]

    def check(self):
        if time.monotonic() > self.deadline:
            raise OutOfTime

    def time(self, job):
        self.check()
        return self.m.new_int_var(job["a"], self.horizon, "")

    def optional(self, k, start, length, there, demand):
        """Puts an interval of a fixed length on type k."""
        self.load[k][0].append(self.m.new_optional_fixed_size_interval_var(start, length, there, ""))
        self.load[k][1].append(demand)

    def rounds_of(self, number, job, one_round):
        """Chains rounds: one_round posts tasks between ready and end."""
        ready = job["a"]
        for r in range(job["R"]):
            end = self.ends[number] if r == job["R"] - 1 else self.time(job)
            one_round(r, ready, end)
            ready = end

    def tasks(self, number, job):
        def one_round(r, ready, end):
            before = None
            for _ in range(job["K"]):
                start = self.time(job)
                self.m.add(start >= ready)
                if before is not None:
                    self.m.add(start >= before)  # tasks of a round are alike
                before = start
                choice = []
                for k, _, (p, s) in self.modes(job):
                    there = self.m.new_bool_var("")
                    choice.append(there)
                    self.optional(k, start, p, there, 1)
                    self.m.add(end >= start + p + s).only_enforce_if(there)
                    self.blocks.append((there, number, k, start, r, 1, 1, 1))
                self.m.add_exactly_one(choice)
        self.rounds_of(number, job, one_round)

    def variable(self, number, job):
        gpus = sum(g for g, _ in self.types(job))

        def one_round(r, ready, end):
            counts = []
            for k, g, (p, s) in self.modes(job):
                for _ in range(1 + -(-job["K"] // gpus)):
                    there, start = self.m.new_bool_var(""), self.time(job)
                    count = self.m.new_int_var(0, min(job["K"], g), "")
                    counts.append(count)
                    self.m.add(count >= 1).only_enforce_if(there)
                    self.m.add(count == 0).only_enforce_if(~there)
                    self.m.add(start >= ready).only_enforce_if(there)
                    self.m.add(end >= start + p + s).only_enforce_if(there)
                    self.optional(k, start, p, there, count)
                    self.blocks.append((there, number, k, start, r, 1, count, count))
            self.m.add(sum(counts) == job["K"])
        self.rounds_of(number, job, one_round)

    def rounds(self, number, job):
        def one_round(r, ready, end):
            start = self.time(job)
            self.m.add(start >= ready)
            choice = []
            for k, g, (p, s) in self.modes(job):
                there, wide = self.m.new_bool_var(""), min(job["K"], g)
                choice.append(there)
                length = -(-job["K"] // wide) * p
                self.optional(k, start, length, there, wide)
                self.m.add(end >= start + length + s).only_enforce_if(there)
                self.blocks.append((there, number, k, start, r, 1, wide, job["K"]))
            self.m.add_exactly_one(choice)
        self.rounds_of(number, job, one_round)

    def whole(self, number, job):
        start, choice = self.time(job), []
        for k, _, (p, s) in self.modes(job):
            there, length = self.m.new_bool_var(""), job["R"] * (p + s)
            choice.append(there)
            self.optional(k, start, length, there, job["K"])
            self.m.add(self.ends[number] >= start + length).only_enforce_if(there)
            self.blocks.append((there, number, k, start, 0, job["R"], job["K"], job["K"]))
        self.m.add_exactly_one(choice)

    def split(self, number, job):
        done, counts = [], []
        first_end = self.time(job)
        for segment in range(2):
            choice = []
            start = self.time(job)
            if segment:
                self.m.add(start >= first_end)
            for k, _, (p, s) in self.modes(job):
                there, count = self.m.new_bool_var(""), self.m.new_int_var(0, job["R"], "")
                end = self.time(job)
                choice.append(there)
                self.m.add(count >= 1).only_enforce_if(there)
                self.m.add(count == 0).only_enforce_if(~there)
                self.load[k][0].append(self.m.new_optional_interval_var(start, (p + s) * count, end, there, ""))
                self.load[k][1].append(job["K"])
                self.m.add((self.ends[number] if segment else first_end) >= end).only_enforce_if(there)
                before = 0 if not segment else sum(done)
                self.blocks.append((there, number, k, start, before, count, job["K"], job["K"]))
                counts.append(count)
            if segment:
                self.m.add_at_most_one(choice)
            else:
                self.m.add_exactly_one(choice)
                done = list(counts)
                self.m.add(self.ends[number] >= first_end)
        self.m.add(sum(counts) == job["R"])


def main():
    data = json.load(sys.stdin)
    began = time.monotonic()
    deadline = began + data["limit_s"]
    answer = {"status": "no model in time", "bound": None, "blocks": []}
    try:
        built = Builder(data, deadline)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = deadline - time.monotonic()
        solver.parameters.num_workers = data["workers"]
        solver.parameters.random_seed = data["seed"]
        status = solver.solve(built.m)
        answer["status"] = solver.status_name(status).lower()
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
            answer["bound"] = solver.best_objective_bound
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            answer["blocks"] = [[number, k] + [solver.value(x) for x in rest]
                                for there, number, k, *rest in built.blocks if solver.value(there)]
    except OutOfTime:
        pass
    answer["seconds"] = time.monotonic() - began
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
