package pool

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// shortPath is a path of a file in a directory that is short enough for a socket, while the directory is open.
func shortPath(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// listen makes the socket of the process.
func listen(dir string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := worker.Listen(shortPath(d, socketFile))
	if err == nil {
		l.SetUnlinkOnClose(false) // its path is that of another file by then
	}
	return l, err
}

// outbox sends messages over a connection in order, without making the sender wait: what the connection does not take
// at once is sent by a goroutine.
type outbox struct {
	conn *net.UnixConn
	raw  syscall.RawConn

	mu     sync.Mutex
	out    []byte // of the message that is sent
	queue  []byte // what is left to send
	busy   bool   // the goroutine sends
	wake   chan struct{}
	closed bool
}

func newOutbox(conn *net.UnixConn) *outbox {
	o := &outbox{conn: conn, wake: make(chan struct{}, 1)}
	o.raw, _ = conn.SyscallConn() // an error is that of a closed connection, which writing shows
	go o.write()
	return o
}

func newReader(conn *net.UnixConn) *bufio.Reader { return bufio.NewReaderSize(conn, 1<<16) }

// send sends a message, or queues it.
func (o *outbox) send(v any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	out, err := appendMessage(o.out[:0], v)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hare:", err)
		return
	}
	o.out = out
	if !o.busy && len(o.queue) == 0 && o.raw != nil {
		out = out[o.now(out):]
	}
	if len(out) == 0 {
		return
	}
	o.queue = append(o.queue, out...)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// now sends what the connection takes at once.
func (o *outbox) now(b []byte) (sent int) {
	_ = o.raw.Write(func(fd uintptr) bool {
		if n, err := unix.Write(int(fd), b); err == nil {
			sent = n
		}
		return true
	})
	return sent
}

// close ends the connection. The next agent gets what was not sent.
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
	for range o.wake {
		for {
			o.mu.Lock()
			b := o.queue
			o.queue, o.busy = nil, len(b) > 0
			o.mu.Unlock()
			if len(b) == 0 {
				break
			}
			if _, err := o.conn.Write(b); err != nil {
				o.close()
				return
			}
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

// Greeting waits, for some time at most, until the process has reported each parameter server and task that it has.
func (c *Client) Greeting(patience time.Duration) (has []*clusterdoc.TaskReport, err error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	for {
		e, err := c.Receive()
		switch {
		case err != nil:
			return nil, err
		case e.Type == Ready:
			return has, c.conn.SetReadDeadline(time.Time{})
		case e.Report != nil:
			has = append(has, e.Report)
		}
	}
}

// Close ends the connection, and not the process.
func (c *Client) Close() { c.out.close() }
