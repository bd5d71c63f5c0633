package runner

import (
	"os"
	"slices"
	"strings"
)

// bare are the variables of the agent's environment that its helper processes get. Names that end in * are
// beginnings of names. Nothing on the list holds a secret.
var bare = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
	"CUDA_*", "NVIDIA_*", "GOMAXPROCS", "GODEBUG", "GOTRACEBACK"}

// Environment is what runners and other processes of an agent get of its environment. Nothing else is passed on: a
// process of the same user can read the environment of another one.
func Environment() (env []string) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); isBare(name) {
			env = append(env, v)
		}
	}
	return env
}

func isBare(name string) bool {
	return slices.ContainsFunc(bare, func(b string) bool {
		start, any := strings.CutSuffix(b, "*")
		return name == b || any && strings.HasPrefix(name, start)
	})
}
