package access_test

import (
	"fmt"
	"time"

	"github.com/hare-sched/hare/serve/access"
)

// A caller shows the text of a key; the set has only the checksum of that text.
func ExampleNewKey() {
	now := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	text, key, err := access.NewKey("vision", access.RoleSolve, "of the nightly job", now, 24*time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	var set access.KeySet
	if err := set.Add(key, now); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(access.KeyID(text) == set.Keys[0].ID, key.Role, key.State(now))
	fmt.Println(key.State(now.Add(25 * time.Hour)))
	// Output:
	// true solve valid
	// expired
}
