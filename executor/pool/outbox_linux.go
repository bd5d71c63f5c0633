package pool

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/hare-sched/hare/executor/worker"
)

// outbox sends messages over a connection in order, without making the sender wait.
type outbox struct {
	conn *net.UnixConn

	mu     sync.Mutex
	queue  []any
	wake   chan struct{}
	closed bool
}

func newOutbox(conn *net.UnixConn) *outbox {
	o := &outbox{conn: conn, wake: make(chan struct{}, 1)}
	go o.write()
	return o
}

func newReader(conn *net.UnixConn) *bufio.Reader { return bufio.NewReaderSize(conn, 1<<16) }

// send queues a message.
func (o *outbox) send(v any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.queue = append(o.queue, v)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// close ends the connection. What was not sent is told to the next agent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed, o.queue = true, nil
		close(o.wake)
		_ = o.conn.Close()
	}
}

func (o *outbox) write() {
	var b []byte
	for range o.wake {
		o.mu.Lock()
		queue := o.queue
		o.queue = nil
		o.mu.Unlock()
		b = b[:0]
		var err error
		for _, v := range queue {
			if b, err = appendMessage(b, v); err != nil {
				fmt.Fprintln(os.Stderr, "hare:", err)
			}
		}
		if _, err := o.conn.Write(b); err != nil {
			o.close()
			return
		}
	}
}

// Client is the agent's end of the connection to the process. Send may be called by several goroutines.
type Client struct {
	conn *net.UnixConn
	out  *outbox
	in   *bufio.Reader
}

// Dial connects to the process of a directory. It fails where the process does not listen yet.
func Dial(dir string) (*Client, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: shortPath(d, socketFile), Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := worker.CheckPeer(conn, os.Geteuid()); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, socketFile), err)
	}
	return &Client{conn: conn, out: newOutbox(conn), in: newReader(conn)}, nil
}

// Send sends a request, and does not wait until it is sent.
func (c *Client) Send(q *Request) { c.out.send(q) }

// Receive waits for the next event. The error says that the connection is over.
func (c *Client) Receive() (*Event, error) {
	e := new(Event)
	if err := readMessage(c.in, e); err != nil {
		return nil, err
	}
	return e, nil
}

// Close ends the connection, and not the process.
func (c *Client) Close() { c.out.close() }
