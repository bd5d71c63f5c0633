package pseudonym

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare/history"
)

// submitOptions are the options of sbatch, srun and salloc that are kept, with what their values hold. Options without
// values are kept as they are; all others, the script and its arguments are left out.
var submitOptions = map[string]func(w *walker, s string) string{
	"gres": (*walker).tres, "gpus": (*walker).gpus, "gpus-per-node": (*walker).gpus, "gpus-per-socket": (*walker).gpus,
	"gpus-per-task": (*walker).gpus, "tres-per-task": (*walker).tres, "nodelist": (*walker).hosts,
	"exclude": (*walker).hosts, "nodes": (*walker).name, "ntasks": (*walker).name, "ntasks-per-node": (*walker).name,
	"ntasks-per-socket": (*walker).name, "ntasks-per-gpu": (*walker).name, "cpus-per-task": (*walker).name,
	"cpus-per-gpu": (*walker).name, "mem": (*walker).name, "mem-per-gpu": (*walker).name, "mem-per-cpu": (*walker).name,
	"time": (*walker).name, "time-min": (*walker).name, "exclusive": (*walker).words, "oversubscribe": (*walker).words,
	"dependency": (*walker).dependency, "array": (*walker).slurmID, "sockets-per-node": (*walker).name,
	"cores-per-socket": (*walker).name, "threads-per-core": (*walker).name, "extra-node-info": (*walker).slurmID,
	"constraint": (*walker).features, "partition": (*walker).commas, "account": (*walker).name, "qos": (*walker).commas,
	"reservation": (*walker).commas, "begin": (*walker).name, "nodefile": (*walker).path, "comment": (*walker).comment,
	"job-name": (*walker).name,
}

func (w *walker) commas(s string) string { return w.list(s, ",") }

// gpus keeps numbers of GPUs with types, such as v100:2.
func (w *walker) gpus(s string) string {
	parts := strings.Split(s, ",")
	for i := range parts {
		gpuType, count, typed := strings.Cut(strings.TrimPrefix(parts[i], "gpu:"), ":")
		if !harmless(count) || !typed && !tokenForm.MatchString(gpuType) {
			parts[i] = w.name(parts[i])
			continue
		}
		if typed || !harmless(gpuType) {
			w.token(gpuType)
		}
	}
	return strings.Join(parts, ",")
}

func (w *walker) path(s string) string {
	if strings.Contains(s, "/") {
		return "/" + w.name(strings.ReplaceAll(s, "/", "-"))
	}
	return w.name(s)
}

func (w *walker) comment(s string) string { return w.value("", "comment", s) }

// submitLine keeps of a command line the options that readers know.
func (w *walker) submitLine(line string) string {
	words := strings.Fields(line)
	if len(words) == 0 {
		return line
	}
	out := []string{"sbatch"}
	if history.IsSubmitCommand(words[0]) {
		out[0] = words[0][strings.LastIndexByte(words[0], '/')+1:]
	}
	visit := func(name, value string) {
		switch write, ok := submitOptions[longOption(name)]; {
		case strings.HasPrefix(name, "-"):
			out = append(out, name)
		case name == "wrap":
			out = append(out, "--wrap=job.sh") // options behind it are words of a command line
		case ok && value != "":
			out = append(out, "--"+name+"="+write(w, value))
		case ok || history.IsSubmitFlag(name):
			out = append(out, "--"+name)
		}
	}
	wrapped := slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "--wrap") })
	for rest := words[1:]; ; {
		colon := slices.Index(rest, ":") // stands between the components of a heterogeneous job
		if wrapped || colon < 0 {
			colon = len(rest)
		}
		if history.SubmitOptions(append(words[:1:1], rest[:colon]...), visit) {
			out = append(out, "job.sh")
			break
		}
		if colon == len(rest) {
			break
		}
		out, rest = append(out, ":"), rest[colon+1:]
	}
	return strings.Join(out, " ")
}

// longOption is the name of an option by its begin, as far as that names one that is kept alone.
func longOption(name string) string {
	if _, ok := submitOptions[name]; ok || history.IsSubmitFlag(name) {
		return name
	}
	found := ""
	for long := range submitOptions {
		if strings.HasPrefix(long, name) {
			if found != "" {
				return name
			}
			found = long
		}
	}
	return found
}
