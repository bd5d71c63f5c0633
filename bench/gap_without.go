package bench

import (
	"fmt"
	"strings"

	"github.com/hare-sched/hare/solver"
)

// part is one of Hare's that can be left out.
type part struct {
	name string
	out  func(*solver.Without)
}

var parts = []part{
	{"sizes", func(w *solver.Without) { w.Sizes = true }},
	{"steps", func(w *solver.Without) { w.Steps = true }},
	{"fine-grid", func(w *solver.Without) { w.FineGrid = true }},
	{"worth", func(w *solver.Without) { w.Worth = true }},
	{"plan", func(w *solver.Without) { w.Plan = true }},
	{"warm", func(w *solver.Without) { w.Warm = true }},
	{"prices", func(w *solver.Without) { w.Prices = true }},
	{"search", func(w *solver.Without) { w.Search = true }},
}

// Parts lists what ParseWithout knows.
func Parts() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// ParseWithout reads the names of parts that are left out.
func ParseWithout(names []string) (w solver.Without, err error) {
	for _, name := range names {
		found := false
		for _, p := range parts {
			if p.name == name {
				p.out(&w)
				found = true
			}
		}
		if !found {
			return w, fmt.Errorf("%s: no such part; known: %s", name, strings.Join(Parts(), ", "))
		}
	}
	return w, nil
}
