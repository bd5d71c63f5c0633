package pseudonym

import (
	"strings"
)

// submitOptions are the options of sbatch, srun and salloc that are kept, with what their values hold. Options without
// values, which flagOptions lists, are kept as they are; all others, the script and its arguments are left out.
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

// submitFlags are the options without a value, or with one behind = alone.
var submitFlags = setOf(`bell compress contiguous disable-status exact exclusive get-user-env help hold ` +
	`ignore-pbs immediate
	interactive kill-on-bad-exit label multi-prog nice no-bell no-kill no-requeue no-shell overcommit overlap
	oversubscribe
	parsable preserve-env propagate pty quiet reboot requeue resv-ports spread-job test-only unbuffered usage
	use-min-nodes
	verbose version wait whole`)

// shortOptions are the long names of short options with values.
var shortOptions = map[byte]string{'G': "gpus", 'N': "nodes", 'd': "dependency", 'w': "nodelist", 'x': "exclude",
	'F': "nodefile", 'n': "ntasks", 'c': "cpus-per-task", 't': "time", 'a': "array", 'B': "extra-node-info",
	'C': "constraint", 'p': "partition", 'A': "account", 'q': "qos", 'b': "begin", 'J': "job-name"}

const shortFlags = "hHIkKlOQsuvVEXZ"

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
	command := words[0][strings.LastIndexByte(words[0], '/')+1:]
	whole := command == "sbatch" || command == "srun" || command == "salloc"
	wrapped := false
	for _, word := range words {
		wrapped = wrapped || strings.HasPrefix(word, "--wrap")
	}
	out := []string{"sbatch"}
	if whole {
		out[0] = command
	}
	for at := 0; at < len(words); at++ {
		word := words[at]
		next := func() string {
			if at+1 < len(words) && !strings.HasPrefix(words[at+1], "-") {
				at++
				return words[at]
			}
			return ""
		}
		switch {
		case word == "--" && !wrapped:
			return strings.Join(out, " ")
		case strings.HasPrefix(word, "--"):
			name, value, given := strings.Cut(word[2:], "=")
			long := longOption(name)
			if !given && !submitFlags[name] {
				value = next()
			}
			switch write, ok := submitOptions[long]; {
			case name == "wrap":
				out = append(out, "--wrap=job.sh") // options behind it are words of a command line
			case ok && value != "":
				out = append(out, "--"+name+"="+write(w, value))
			case ok || submitFlags[name]:
				out = append(out, "--"+name)
			}
		case len(word) > 1 && word[0] == '-':
			for i := 1; i < len(word); i++ {
				if strings.IndexByte(shortFlags, word[i]) >= 0 {
					out = append(out, "-"+word[i:i+1])
					continue
				}
				value := word[i+1:]
				if value == "" {
					value = next()
				}
				if long, ok := shortOptions[word[i]]; ok && value != "" {
					out = append(out, "--"+long+"="+submitOptions[long](w, strings.TrimPrefix(value, "=")))
				}
				break
			}
		case at == 0 || wrapped:
		case !whole:
		default:
			return strings.Join(append(out, "job.sh"), " ")
		}
	}
	return strings.Join(out, " ")
}

// longOption is the name of an option by its begin, as far as that names one that is kept alone.
func longOption(name string) string {
	if _, ok := submitOptions[name]; ok || submitFlags[name] {
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
