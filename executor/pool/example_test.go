package pool_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hare-sched/hare/executor/pool"
)

// An agent says what the devices are, starts the process (here not), and connects.
func Example() {
	dir, err := os.MkdirTemp("", "pool")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	spec := &pool.Spec{Devices: []pool.Device{{Type: "V100", Visible: "0"}, {Type: "V100", Visible: "1"}}}
	if err := pool.WriteSpec(dir, spec); err != nil {
		fmt.Println(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pool.json"))
	fmt.Println(len(text) > 0, err)
	_, err = pool.Dial(dir)
	fmt.Println(err != nil)
	// Output:
	// true <nil>
	// true
}
