package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// greeting is how long a connection may take until its hello.
	greeting = 10 * time.Second
	// maxGreetings is how many connections may be before their hello at the same time.
	maxGreetings = 64
	// acceptPause is how long no connection is accepted after one could not be, such as for too many open files.
	acceptPause = 100 * time.Millisecond
	// redialPause is the pause between two attempts to reach the other side.
	redialPause = 200 * time.Millisecond
	// silence is how long the other end may leave what was sent without an acknowledgement.
	silence = 30 * time.Second
)

// Welcome decides on a connection by its hello and by the server name that its handshake asked for. It returns what
// serves the connection, or the error for which the connection is refused.
type Welcome func(l *Link, hello *Header, serverName string) (serve func(), err error)

// Accept accepts connections until the listener is closed. Each one is secured and says hello before welcome gets it.
// A frame that comes later has at most a number of bytes.
func Accept(listener net.Listener, settings *tls.Config, most int64, welcome Welcome) {
	greetings := make(chan struct{}, maxGreetings)
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		greetings <- struct{}{}
		go func() {
			serve, err := greet(conn, settings, most, welcome)
			<-greetings
			if err != nil {
				_ = conn.Close()
				fmt.Fprintf(os.Stderr, "hare: a connection from %s is refused: %v\n", conn.RemoteAddr(), err)
				return
			}
			serve()
		}()
	}
}

// greet reads the hello of a connection, and has it welcomed.
func greet(conn net.Conn, settings *tls.Config, most int64, welcome Welcome) (serve func(), err error) {
	watch(conn)
	secured := tls.Server(conn, settings)
	if err := secured.SetDeadline(time.Now().Add(greeting)); err != nil {
		return nil, err
	}
	l := New(secured, most)
	f, err := ReadFrame(l.in, 0)
	if err != nil {
		return nil, err
	}
	if serve, err = welcome(l, &f.Header, secured.ConnectionState().ServerName); err != nil {
		return nil, err
	}
	return serve, secured.SetDeadline(time.Time{})
}

// Dial makes a secure connection to an address, which has not said hello.
func Dial(ctx context.Context, address string, settings *tls.Config, most int64) (*Link, error) {
	ctx, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	watch(conn)
	secured := tls.Client(conn, settings)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return New(secured, most), nil
}

// Hello says hello, with the version of this side.
func (l *Link) Hello(h Header) error {
	h.Kind, h.Version = Hello, Version
	return l.Send(&Frame{Header: h})
}

// AwaitHello waits for the hello with which the other side answers that of this one. In TLS 1.3 a side that dials
// learns with the first answer only that it was refused.
func (l *Link) AwaitHello() (*Header, error) {
	if err := l.conn.SetReadDeadline(time.Now().Add(greeting)); err != nil {
		return nil, err
	}
	f, err := ReadFrame(l.in, 0)
	if err != nil {
		return nil, err
	}
	return &f.Header, l.conn.SetReadDeadline(time.Time{})
}

// UnreachableError says that the other side could not be reached for as long as a caller's patience lasts.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return "it cannot be reached: " + e.Err.Error() }

// Unwrap returns the error of the last attempt.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Persist calls try until try is done, with a pause between two calls, and returns the last error of try. The error is
// an *UnreachableError where the other side has not been heard for longer than a caller has patience.
func Persist(ctx context.Context, patience time.Duration, try func() (heard, done bool, err error)) error {
	for last := time.Now(); ; {
		heard, done, err := try()
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case heard:
			last = time.Now()
		case time.Since(last) > patience:
			return &UnreachableError{err}
		}
		select {
		case <-time.After(redialPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch ends a connection whose other end is gone, or has not acknowledged what was sent for 30 seconds.
func watch(conn net.Conn) {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second,
		Count: 4})
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
		})
	}
}
