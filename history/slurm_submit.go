package history

import (
	"slices"
	"strings"
)

// submission is what the command line of sbatch, srun or salloc says that no other field of a job tells.
type submission struct {
	exclusive bool
	// gpus says that the job asked for a number of GPUs in all, and nodes that it asked for nodes or
	// for so many GPUs or tasks on each.
	gpus, nodes bool
	// perTask is the number of GPUs of each of Slurm's tasks; 0 means that the job did not ask so.
	perTask int64
	// exclude and require are the lists of -x and -w, in Slurm's form.
	exclude, require []string
	// unread are options that choose nodes and that cannot be read: files with names of nodes.
	unread []string
	after  []string
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

// shortNames are the long names of the short options that readSubmission reads.
var shortNames = map[byte]string{'G': "gpus", 'N': "nodes", 'd': "dependency", 'w': "nodelist", 'x': "exclude",
	'F': "nodefile"}

// readSubmission reads the command line with which a job was submitted. Slurm writes the words without
// their quotes. Options end at the first other word, the script; behind --wrap, whose value may have
// blanks, all words that begin as options count. It takes time in proportion to the line.
func readSubmission(line string) submission {
	var s submission
	words := strings.Fields(line)
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
			return s
		case strings.HasPrefix(word, "--"):
			name, value, given := strings.Cut(word[2:], "=")
			if !given && !slices.Contains(flagOptions, name) {
				value = next()
			}
			s.option(name, value)
		case len(word) > 1 && word[0] == '-':
			for i := 1; i < len(word); i++ {
				if strings.IndexByte(shortFlags, word[i]) >= 0 {
					continue
				}
				value := word[i+1:]
				if value == "" {
					value = next()
				}
				s.option(shortNames[word[i]], strings.TrimPrefix(value, "="))
				break
			}
		case at == 0 || wrapped: // the name of the command, or words of the value of --wrap
		default:
			if !isSubmit(words[0]) {
				continue // a line that is not a whole one
			}
			return s
		}
	}
	return s
}

// isSubmit says whether a word names a command that submits jobs.
func isSubmit(word string) bool {
	word = word[strings.LastIndexByte(word, '/')+1:]
	return word == "sbatch" || word == "srun" || word == "salloc"
}

// option takes one option by its long name.
func (s *submission) option(name, value string) {
	switch name {
	case "exclusive":
		s.exclusive = s.exclusive || value != "user" && value != "mcs" && value != "topo"
	case "gpus":
		s.gpus = true
	case "nodes", "gres", "gpus-per-node", "ntasks-per-node":
		s.nodes = true
	case "gpus-per-task", "tres-per-task":
		if name == "gpus-per-task" && !strings.HasPrefix(value, "gpu") {
			value = "gpu:" + value
		}
		if n, _, err := parseGres(value); err == nil && n > 0 {
			s.perTask = n
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

// hostSet reads lists of nodes in Slurm's form; the result is sorted.
func hostSet(lists []string) ([]string, error) {
	var out []string
	for _, list := range lists {
		names, err := expandHosts(list)
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
