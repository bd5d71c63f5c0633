package link

import (
	"errors"
	"net"
	"testing"
)

// TestAcceptGoesOn has a listener fail once, as for too many open files, before a connection comes.
func TestAcceptGoesOn(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	home, err := Secure("secret", SideHome)
	if err != nil {
		t.Fatal(err)
	}
	helper, err := Secure("secret", SideHelper)
	if err != nil {
		t.Fatal(err)
	}
	go Accept(&failsOnce{Listener: listener}, home, 1<<10, func(l *Link, hello *Header, _ string) (func(), error) {
		return func() {}, l.Hello(Header{Round: hello.Round})
	})
	l, err := Dial(t.Context(), listener.Addr().String(), helper, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer l.End(net.ErrClosed)
	if err := l.Hello(Header{Round: 7}); err != nil {
		t.Fatal(err)
	}
	if h, err := l.AwaitHello(); err != nil || h.Kind != Hello || h.Round != 7 || h.Version != Version {
		t.Error(h, err)
	}
}

type failsOnce struct {
	net.Listener
	failed bool
}

func (l *failsOnce) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, errors.New("too many open files")
	}
	return l.Listener.Accept()
}

// TestPersist checks that a caller who has heard the other side has all its patience again, and none without end.
func TestPersist(t *testing.T) {
	failed := errors.New("refused")
	n := 0
	err := Persist(t.Context(), 0, func() (heard, done bool, err error) {
		n++
		return n < 3, false, failed
	})
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || !errors.Is(err, failed) || n != 3 {
		t.Error(n, err)
	}
}
