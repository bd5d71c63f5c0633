package access

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/hare-sched/hare"
)

// ErrNode says that a key is for other nodes.
var ErrNode = errors.New("access: the key is for other nodes")

// Limits of the patterns of a key.
const (
	maxPatterns     = 16
	maxPatternBytes = 63
)

// CheckNodes says what is wrong with the patterns of the names of nodes that a key is to have.
func CheckNodes(role Role, patterns []string) error {
	if role != RoleAgent {
		return &hare.InvalidError{Pointer: "/nodes", Code: "not_allowed",
			Detail: "only keys of role agent are for nodes: leave them out"}
	}
	if len(patterns) > maxPatterns {
		return &hare.InvalidError{Pointer: "/nodes", Code: "too_many",
			Detail: fmt.Sprintf("there are %d patterns: at most %d are allowed", len(patterns), maxPatterns)}
	}
	for i, p := range patterns {
		if p == "" || len(p) > maxPatternBytes || strings.ContainsFunc(p, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-*", r)
		}) {
			return &hare.InvalidError{Pointer: fmt.Sprintf("/nodes/%d", i), Code: "bad_pattern",
				Detail: fmt.Sprintf("%.80q must be the name of a node, or a pattern with * for any characters, such as rack1-*",
					p)}
		}
	}
	return nil
}

// May reports whether the key may be the agent of a node. free says that it may, because it has no node yet.
func (k *Key) May(node string) (may, free bool) {
	if k.Role != RoleAgent || k.Nodes == nil {
		return true, false
	}
	for _, p := range k.Nodes {
		if ok, _ := path.Match(p, node); ok { // CheckNodes allows no pattern that has an error
			return true, false
		}
	}
	return len(k.Nodes) == 0, len(k.Nodes) == 0
}

// One reports whether the key is for one node alone.
func (k *Key) One() bool {
	return k.Role == RoleAgent && k.Nodes != nil &&
		(len(k.Nodes) == 0 || len(k.Nodes) == 1 && !strings.Contains(k.Nodes[0], "*"))
}

// Bind gives a key that has no node yet the node that it has registered. A key that may be the agent of the node stays
// as it is; one that may not gives ErrNode, and one that is not there ErrNoKey.
func (s *KeySet) Bind(id, node string) error {
	for i := range s.Keys {
		if k := &s.Keys[i]; k.ID == id {
			may, free := k.May(node)
			if free {
				k.Nodes = []string{node}
			}
			if !may {
				return ErrNode
			}
			return nil
		}
	}
	return ErrNoKey
}
