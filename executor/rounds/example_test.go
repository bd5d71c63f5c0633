package rounds_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hare-sched/hare/executor/rounds"
)

// An agent writes what to train, starts the program, and reads how far it is.
func Example() {
	dir, err := os.MkdirTemp("", "rounds")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	spec := &rounds.Spec{Job: "j1", Module: "line", Directory: "/data/jobs", Tasks: 4, Rounds: 100,
		GPUs:       []string{"0", "1"},
		Checkpoint: filepath.Join(dir, "j1.hare")}
	if err := rounds.WriteSpec(dir, spec); err != nil {
		fmt.Println(err)
	}
	_, err = rounds.ReadProgress(dir)
	fmt.Println(os.IsNotExist(err))
	// Output: true
}
