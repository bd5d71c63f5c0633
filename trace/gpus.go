package trace

import (
	"fmt"
	"strconv"
	"strings"

	hare "github.com/hare-sched/hare"
)

// knownTypes are the spellings of GPU types that flags match without regard to case.
var knownTypes = []string{"V100", "P100", "K80", "T4", "M60", "GPU", "A10", "G1", "G2", "G3", "V100M16", "V100M32"}

// canonicalType returns the spelling of a known type that readers use, and returns other
// names unchanged.
func canonicalType(name string) string {
	for _, t := range knownTypes {
		if strings.EqualFold(t, name) {
			return t
		}
	}
	return name
}

// ParseGPUs reads a cluster such as "V100=36,P100=36,K80=36" and keeps its order. Known
// types match without regard to case.
func ParseGPUs(text string) ([]hare.TypeCount, error) {
	var out []hare.TypeCount
	total := 0
	for part := range strings.SplitSeq(text, ",") {
		name, count, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("trace: GPUs %q: write TYPE=COUNT, separated by commas, such as V100=36,K80=12",
				part)
		}
		name = canonicalType(strings.TrimSpace(name))
		if strings.ContainsAny(name, "/ \t\"") {
			return nil, fmt.Errorf("trace: GPUs %q: a type has no blanks, quotes or slashes", part)
		}
		n, err := strconv.Atoi(strings.TrimSpace(count))
		if err != nil || n < 1 || n > hare.MaxGPUs {
			return nil, fmt.Errorf("trace: GPUs %q: the count must be a whole number from 1 to %d", part, hare.MaxGPUs)
		}
		if total += n; total > hare.MaxGPUs {
			return nil, fmt.Errorf("trace: GPUs %q: more than %d GPUs in all", text, hare.MaxGPUs)
		}
		for _, g := range out {
			if strings.EqualFold(g.Type, name) {
				return nil, fmt.Errorf("trace: GPUs %q: type %s is given twice", text, name)
			}
		}
		out = append(out, hare.TypeCount{Type: name, Count: n})
	}
	return out, nil
}

// clusterOf returns a cluster with one node for each type, named as the type in lower
// case.
func clusterOf(gpus []hare.TypeCount) hare.Cluster {
	var c hare.Cluster
	for _, g := range gpus {
		c.Nodes = append(c.Nodes, hare.Node{Name: strings.ToLower(g.Type), GPUs: []hare.TypeCount{g}})
	}
	return c
}

// requireTypes refuses GPUs of types that no job of the trace can use.
func requireTypes(gpus []hare.TypeCount, known []string, what string) error {
	for _, g := range gpus {
		ok := false
		for _, k := range known {
			ok = ok || k == g.Type
		}
		if !ok {
			return fmt.Errorf("trace: %s: unknown GPU type %q; the types are %s", what, g.Type,
				strings.Join(known, ", "))
		}
	}
	return nil
}
