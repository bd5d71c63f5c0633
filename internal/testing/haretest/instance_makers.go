package haretest

import "github.com/hare-sched/hare"

// Node is a node with count GPUs of one type.
func Node(name, kind string, count int) hare.Node {
	return hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: kind, Count: count}}}
}
