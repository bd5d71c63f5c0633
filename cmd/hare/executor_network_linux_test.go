package main

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// flow says what a network does with what is sent.
type flow int

const (
	flows   flow = iota
	held         // nothing comes through in any direction; what was sent comes later
	deaf         // requests come through, answers are held
	mute         // answers come through, requests are held
	slow         // each piece takes a while
	refused      // connections are reset, and new ones too
)

var flowNames = []string{"", "held", "answers held", "requests held", "slow", "reset"}

// network carries the connections of an agent to the server, and is cut in several ways. Bytes that are held come
// through when it flows again, as TCP repeats them: requests of a lease that is long over.
type network struct {
	to      string
	l       net.Listener
	mu      sync.Mutex
	flow    flow
	changed chan struct{} // closed and replaced with each change
	ends    map[net.Conn]bool
}

func newNetwork(t *testing.T, to string) *network {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{to: to, l: l, changed: make(chan struct{}), ends: map[net.Conn]bool{}}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { n.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		n.set(flows)
		n.reset()
		group.Wait()
	})
	return n
}

func (n *network) set(f flow) {
	n.mu.Lock()
	n.flow = f
	close(n.changed)
	n.changed = make(chan struct{})
	n.mu.Unlock()
	if f == refused {
		n.reset()
	}
}

// reset breaks all connections off.
func (n *network) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.ends {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

// add notes an end of a connection, which drop ends.
func (n *network) add(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends[c] = true
}

func (n *network) drop(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ends, c)
	_ = c.Close()
}

func (n *network) carry(near net.Conn) {
	n.add(near)
	defer n.drop(near)
	n.pass(true)
	n.mu.Lock()
	down := n.flow == refused
	n.mu.Unlock()
	far, err := net.Dial("tcp", n.to)
	if err != nil || down {
		return
	}
	n.add(far)
	defer n.drop(far)
	var both sync.WaitGroup
	both.Go(func() { n.copy(far, near, true) })
	both.Go(func() { n.copy(near, far, false) })
	both.Wait()
}

// copy carries one direction. When one ends, the other does too.
func (n *network) copy(to, from net.Conn, request bool) {
	defer to.Close()
	defer from.Close()
	piece := make([]byte, 16<<10)
	for {
		k, err := from.Read(piece)
		n.pass(request)
		if _, failed := to.Write(piece[:k]); err != nil || failed != nil {
			return
		}
	}
}

// pass waits until what goes in a direction comes through.
func (n *network) pass(request bool) {
	for {
		n.mu.Lock()
		f, changed := n.flow, n.changed
		n.mu.Unlock()
		switch {
		case f == held, f == deaf && !request, f == mute && request:
			<-changed
		case f == slow:
			time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond)
			return
		default:
			return
		}
	}
}
