package access_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/access"
)

// A key of role agent is for the nodes of its patterns; what was stored before keys had nodes is for any.
func TestNodesOfKeys(t *testing.T) {
	dir := t.TempDir()
	f := access.FileIn(dir)
	_, agent := add(t, dir, "a", access.RoleAgent)
	_, solve := add(t, dir, "a", access.RoleSolve)
	read := func(id string) *access.Key {
		t.Helper()
		set, err := f.Read()
		if err != nil {
			t.Fatal(err)
		}
		for i := range set.Keys {
			if set.Keys[i].ID == id {
				return &set.Keys[i]
			}
		}
		t.Fatal("no key " + id)
		return nil
	}
	bind := func(id, node string, want error) {
		t.Helper()
		err := f.Update(t.Context(), func(set *access.KeySet) error { return set.Bind(id, node) })
		if !errors.Is(err, want) {
			t.Errorf("%s to %s: %v", id, node, err)
		}
	}
	may := func(k *access.Key, node string, want, wantFree bool) {
		t.Helper()
		if ok, free := k.May(node); ok != want || free != wantFree {
			t.Errorf("%q for %s: %v, free %v", k.Nodes, node, ok, free)
		}
	}
	may(read(agent.ID), "n1", true, true)
	if !read(agent.ID).One() || read(solve.ID).One() || read(solve.ID).Nodes != nil {
		t.Error("a new key of role agent is for one node, and others for none")
	}
	bind("none", "n1", access.ErrNoKey)
	bind(agent.ID, "n1", nil)
	bind(agent.ID, "n1", nil)
	bind(agent.ID, "n2", access.ErrNode)
	may(read(agent.ID), "n1", true, false)
	may(read(agent.ID), "n11", false, false)
	for _, c := range []struct {
		patterns string
		yes, no  string
		sound    bool
	}{
		{"*", "n1 A.b", "", true},
		{"rack1-*", "rack1- rack1-7", "rack1 rack11-7 xrack1-7 Rack1-7", true},
		{"a*z b", "az a-z b", "azzb bb c", true},
		{"[ab]", "", "a b", false}, {"a?", "", "ab", false}, {`a\\`, "", "a", false}, {"", "", "a", false},
	} {
		k := access.Key{Role: access.RoleAgent, Nodes: strings.Split(c.patterns, " ")}
		if err := access.CheckNodes(k.Role, k.Nodes); (err == nil) != c.sound {
			t.Errorf("%q: %v", c.patterns, err)
		}
		for _, n := range strings.Fields(c.yes) {
			may(&k, n, true, false)
		}
		for _, n := range strings.Fields(c.no) {
			if c.sound {
				may(&k, n, false, false)
			}
		}
		if c.sound && k.One() {
			t.Errorf("%q is for one node", c.patterns)
		}
	}
	if access.CheckNodes(access.RoleAgent, make([]string, 17)) == nil || access.CheckNodes(access.RoleSolve, nil) == nil {
		t.Error("too many patterns, or those of another role, are taken")
	}
	// The file of a version that did not know nodes.
	text, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Set json.RawMessage }
	if err := json.Unmarshal(text, &doc); err != nil || !strings.Contains(string(doc.Set), `"nodes":["n1"]`) {
		t.Fatal(err, string(text))
	}
	writeSet(t, f.Path(), strings.Replace(string(doc.Set), `,"nodes":["n1"]`, "", 1))
	may(read(agent.ID), "n2", true, false)
	bind(agent.ID, "n2", nil)
	if k := read(agent.ID); k.Nodes != nil || k.One() {
		t.Errorf("%q", k.Nodes)
	}
}

// writeSet writes a file of keys with its checksum.
func writeSet(t *testing.T, path, set string) {
	t.Helper()
	text := fmt.Sprintf("{\"hare\":\"keys/v1\",\"sha256\":\"%x\",\"set\":%s}\n", sha256.Sum256([]byte(set)), set)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
