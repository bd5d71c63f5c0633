package python_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hare-sched/hare/executor/python"
)

func ExampleExtract() {
	dir, err := os.MkdirTemp("", "worker")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := python.Extract(dir); err != nil {
		panic(err)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "hare_worker", "switching.py"))
	fmt.Println(len(found))
	// Output: 1
}
