package history

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// submission is what the command line of sbatch, srun or salloc says that no other field of a job tells.
type submission struct {
	exclusive bool
	// gpus says that the job asked for a number of GPUs in all, and nodes that it asked for nodes or
	// for so many GPUs or tasks on each.
	gpus, nodes bool
	// sockets says that the job asked for GPUs of each socket.
	sockets bool
	// perTask is the number of GPUs of each of Slurm's tasks; 0 means that the job did not ask so.
	perTask int64
	// types are the GPU types that each option names, such as gres or gpus. Of an option that is given twice
	// the last value counts, as for Slurm.
	types map[string][]string // nil where none names any
	// limit says that the line names a time limit.
	limit bool
	// asks is what each option asks for, and numbers the values of options that count tasks and nodes, of those
	// options that stand before a command in --wrap.
	asks    []asked
	numbers []numbered
	// exclude and require are the lists of -x and -w, in Slurm's form.
	exclude, require []string
	// unread are options that choose nodes and that cannot be read: files with names of nodes.
	unread []string
	after  []string
}

// asked is what an option asks for, and numbered is the value of an option that counts.
type asked struct {
	option string
	gres   gres
}

type numbered struct {
	option string
	n      int64
}

// number returns the last value of an option that counts; 0 without one.
func (s *submission) number(option string) (n int64) {
	for i := range s.numbers {
		if s.numbers[i].option == option {
			n = s.numbers[i].n
		}
	}
	return n
}

// flagOptions are the options without a value, or with one behind = alone. All others of sbatch, srun
// and salloc have a value behind = or in the next word.
var flagOptions = []string{"bell", "compress", "contiguous", "disable-status", "exact", "exclusive", "get-user-env",
	"help", "hold", "ignore-pbs", "immediate", "interactive", "kill-on-bad-exit", "label", "multi-prog", "nice",
	"no-bell", "no-kill", "no-requeue", "no-shell", "overcommit", "overlap", "oversubscribe", "parsable", "preserve-env",
	"propagate", "pty", "quiet", "reboot", "requeue", "resv-ports", "spread-job", "test-only", "unbuffered", "usage",
	"use-min-nodes", "verbose", "version", "wait", "whole"}

// shortFlags are the short options without a value.
const shortFlags = "hHIkKlOQsuvVEXZ"

// shortNames are the long names of short options with a value.
var shortNames = map[byte]string{'G': "gpus", 'N': "nodes", 'd': "dependency", 'w': "nodelist", 'x': "exclude",
	'F': "nodefile", 'n': "ntasks", 'c': "cpus-per-task", 't': "time", 'a': "array", 'B': "extra-node-info",
	'C': "constraint", 'p': "partition", 'A': "account", 'q': "qos", 'b': "begin", 'J': "job-name"}

// readSubmission reads the command line with which a job was submitted. It takes time in proportion to the line.
func readSubmission(line string) submission { return readWords(strings.Fields(line)) }

// component returns the words of a command line that are about one component of a heterogeneous job, which stand
// between words of a colon. A component beyond those that the line has gets the whole line.
func component(words []string, number int64) []string {
	for from := 1; from < len(words); number-- {
		to := from
		for to < len(words) && words[to] != ":" {
			to++
		}
		if number == 0 {
			return append(words[:1:1], words[from:to]...)
		}
		from = to + 1
	}
	return words
}

// readWords is readSubmission for the words of a line, which it does not keep.
func readWords(words []string) (s submission) {
	inWrap := false
	words, step := wrappedStep(words)
	SubmitOptions(words, func(name, value string) {
		inWrap = inWrap || name == "wrap"
		s.option(name, value, inWrap)
	})
	SubmitOptions(step, func(name, value string) {
		switch name = longName(name); {
		case gpuOptions[name] != "" || name == "gres" || name == "tres-per-task" || name == "dependency" ||
			name == "exclude" || name == "nodelist" || name == "nodefile":
			s.option(name, value, true)
		}
	})
	return s
}

// wrappedStep parts a line at the first srun in the value of --wrap. Options behind it are of the step, as a rule, but
// may be those of the job that follow the value.
func wrappedStep(words []string) (job, step []string) {
	inWrap := false
	for i, word := range words {
		if value, ok := strings.CutPrefix(word, "--wrap"); ok {
			inWrap, word = true, strings.TrimPrefix(value, "=")
		}
		if inWrap && IsSubmitCommand(word) {
			return words[:i+1], slices.Concat([]string{"srun", "--wrap="}, words[i+1:])
		}
	}
	return words, nil
}

// SubmitOptions calls visit for the options of a command line of sbatch, srun or salloc, given as its words: with
// the name behind --, with the long name of a short option that has a value ("" for an unknown letter), and with -
// and the letter of a short option without. script says that a script follows. Slurm writes the words without
// their quotes. Options end at the first other word, the script; behind --wrap, whose value may have blanks, all
// words that begin as options count.
func SubmitOptions(words []string, visit func(name, value string)) (script bool) {
	wrapped := slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "--wrap") })
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
			return false
		case strings.HasPrefix(word, "--"):
			name, value, given := strings.Cut(word[2:], "=")
			if !given && !IsSubmitFlag(name) {
				value = next()
			}
			visit(name, value)
		case len(word) > 1 && word[0] == '-':
			for i := 1; i < len(word); i++ {
				if strings.IndexByte(shortFlags, word[i]) >= 0 {
					visit("-"+word[i:i+1], "")
					continue
				}
				value := word[i+1:]
				if value == "" {
					value = next()
				}
				visit(shortNames[word[i]], strings.TrimPrefix(value, "="))
				break
			}
		case at == 0 || wrapped: // the name of the command, or words of the value of --wrap
		case IsSubmitCommand(words[0]):
			return true
		} // other words are of a line that is not a whole one
	}
	return false
}

// IsSubmitFlag reports whether an option of sbatch, srun or salloc has no value, or one behind = alone.
func IsSubmitFlag(name string) bool { return slices.Contains(flagOptions, name) }

// IsSubmitCommand reports whether a word, which may be a path, names a command that submits jobs.
func IsSubmitCommand(word string) bool {
	word = word[strings.LastIndexByte(word, '/')+1:]
	return word == "sbatch" || word == "srun" || word == "salloc"
}

// gpuOptions are the options that ask for GPUs, with the word that their values leave out.
var gpuOptions = map[string]string{"gres": "", "gpus": "gpu:", "gpus-per-node": "gpu:", "gpus-per-socket": "gpu:",
	"gpus-per-task": "gpu:", "tres-per-task": ""}

// longName is the name of an option that asks for GPUs by so much of it as tells it from all other options.
func longName(name string) string {
	if len(name) <= len("gpus-per-") && !strings.HasPrefix(name, "tres-p") {
		return name
	}
	if name == "" || name[0] != 'g' && name[0] != 't' {
		return name
	}
	for long := range gpuOptions {
		if strings.HasPrefix(long, name) {
			return long
		}
	}
	return name
}

// askGPUs takes the value of an option that asks for GPUs, such as gpu:v100:2 of gres and v100:1,a100 of gpus.
func (s *submission) askGPUs(name, value string, inWrap bool) (gpus int64) {
	if word := gpuOptions[name]; word != "" && strings.IndexByte(value, ',') < 0 {
		value = word + strings.TrimPrefix(value, word)
	} else if word != "" {
		entries := splitOutside(value)
		for i, entry := range entries {
			if !strings.HasPrefix(entry, word) {
				entries[i] = word + entry
			}
		}
		value = strings.Join(entries, ",")
	}
	g := parseGres(value)
	if g.bad != "" {
		return 0
	}
	delete(s.types, name)
	s.name(name, g.byType)
	if !inWrap {
		s.asks = append(s.asks, asked{name, g})
	}
	return g.gpus
}

// total is what the options ask for in all, for a job of so many nodes: by job, else by node, task or socket. Where
// the line says nothing of tasks or sockets, there is one on each node.
func (s *submission) total(nodes int64) gres {
	if nodes == 0 {
		nodes = s.number("nodes")
	}
	nodes = max(1, nodes)
	tasks := s.number("ntasks")
	if tasks == 0 {
		tasks = nodes * max(1, s.number("ntasks-per-node"))
	}
	for _, by := range []struct {
		option string
		times  int64
	}{{"gpus", 1}, {"gpus-per-node", nodes}, {"gres", nodes}, {"gpus-per-task", tasks}, {"tres-per-task", tasks},
		{"gpus-per-socket", nodes * max(1, s.number("sockets-per-node"))}} {
		for i := len(s.asks) - 1; i >= 0; i-- { // of an option that is given twice the last value counts
			if s.asks[i].option == by.option {
				if g := s.asks[i].gres.multiply(by.times); g.gpus > 0 || !g.parts.none() {
					return g
				}
				break
			}
		}
	}
	return gres{}
}

// multiply multiplies what each of so many nodes, tasks or sockets has; more than a cluster can have is bad.
func (g gres) multiply(times int64) gres {
	if times = max(1, times); times > hare.MaxGPUs || g.gpus*times > hare.MaxGPUs {
		return gres{bad: "more GPUs than a cluster has"}
	}
	out := gres{gpus: g.gpus * times, parts: g.parts.times(times), bad: g.bad}
	for _, t := range g.byType {
		out.byType = append(out.byType, hare.TypeCount{Type: t.Type, Count: t.Count * int(times)})
	}
	return out
}

// name adds GPU types that an option names.
func (s *submission) name(option string, byType []hare.TypeCount) {
	for _, g := range byType {
		if s.types == nil {
			s.types = map[string][]string{}
		}
		s.types[option] = append(s.types[option], g.Type)
	}
}

// keepTypes adds the GPU types of a member of squeue such as tres_per_node, in a form such as gres/gpu:v100:2.
func (s *submission) keepTypes(text string) {
	s.name("tres", parseGres(text).byType)
}

// gpuTypes lists the GPU types that the options name, sorted.
func (s *submission) gpuTypes() (types []string) {
	for _, named := range s.types {
		types = append(types, named...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// option takes one option by its long name.
func (s *submission) option(name, value string, inWrap bool) {
	name = longName(name)
	gpus := int64(0)
	if _, ok := gpuOptions[name]; ok {
		if inWrap && len(s.asks) > 0 {
			return // of what runs in the job
		}
		gpus = s.askGPUs(name, value, inWrap)
	}
	switch name {
	case "time":
		s.limit = s.limit || !inWrap
	case "ntasks", "nodes", "ntasks-per-node", "sockets-per-node", "cpus-per-gpu":
		least, _, _ := strings.Cut(value, "-")
		if n, err := parseCount(least); err == nil && n <= hare.MaxGPUs && !inWrap {
			s.numbers = append(s.numbers, numbered{name, n})
		}
	}
	switch name {
	case "exclusive":
		s.exclusive = s.exclusive || value != "user" && value != "mcs" && value != "topo"
	case "gpus":
		s.gpus = true
	case "nodes", "gres", "gpus-per-node", "gpus-per-socket", "ntasks-per-node":
		s.nodes = true
		s.sockets = s.sockets || name == "gpus-per-socket"
	case "gpus-per-task", "tres-per-task":
		if gpus > 0 {
			s.perTask = gpus
		}
	case "dependency":
		s.after = append(s.after, dependencies(value)...)
	case "exclude", "nodelist":
		switch {
		case value == "":
		case strings.Contains(value, "/"):
			s.unread = append(s.unread, "--"+name)
		case name == "exclude":
			s.exclude = append(s.exclude, value)
		default:
			s.require = append(s.require, value)
		}
	case "nodefile":
		s.unread = append(s.unread, "--"+name)
	}
}

// hostSet reads lists of nodes in Slurm's form; the result is sorted. bad is the first list that cannot be read.
func hostSet(lists []string) (out []string, bad string) {
	for _, list := range lists {
		names, err := expandHosts(list)
		if err != nil {
			bad = cmp.Or(bad, list)
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out), bad
}

// dependencies returns the jobs of a list such as afterok:12:13,afterany:14. after alone waits for
// a start, singleton for no job that is named: these are left out.
func dependencies(list string) (ids []string) {
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '?' }) {
		kind, jobs, ok := strings.Cut(part, ":")
		if !ok || kind == "after" {
			continue
		}
		for _, id := range strings.Split(jobs, ":") {
			id, _, _ = strings.Cut(id, "(")
			if id, _, _ = strings.Cut(id, "+"); id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
