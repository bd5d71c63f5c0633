package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func frameBytes(t testing.TB, f *Frame) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteFrame(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFrames(t *testing.T) {
	loss := 0.1
	sent := &Frame{Header: Header{Kind: "run", Number: 7, Round: 3, Task: 2, Loss: &loss}, Payload: []byte("gradient")}
	good := frameBytes(t, sent)
	got, err := ReadFrame(bytes.NewReader(good), 8)
	if err != nil || string(got.Payload) != "gradient" || *got.Loss != loss || got.Number != 7 || got.Task != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	for n := range good {
		_, err := ReadFrame(bytes.NewReader(good[:n]), 8)
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	for name, text := range map[string][]byte{
		"another checksum": flipped,
		"a long header":    binary.BigEndian.AppendUint32(nil, maxHeader+1),
		"no header":        make([]byte, 4),
		"no JSON":          append(binary.BigEndian.AppendUint32(nil, 3), "abc"...),
		"too many bytes":   frameBytes(t, &Frame{Payload: make([]byte, 9)}),
		"negative bytes":   append(binary.BigEndian.AppendUint32(nil, 12), `{"bytes":-1}`...),
	} {
		var bad *FrameError
		if _, err := ReadFrame(bytes.NewReader(text), 8); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(frameBytes(f, &Frame{Header: Header{Kind: Hello, Rank: 1}}))
	f.Add(frameBytes(f, &Frame{Header: Header{Kind: "state", Round: 2}, Payload: []byte("state")}))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ReadFrame(bytes.NewReader(text), 1<<16)
		if err != nil {
			return
		}
		again, err := ReadFrame(bytes.NewReader(frameBytes(t, got)), 1<<16)
		if err != nil || !bytes.Equal(again.Payload, got.Payload) || again.Kind != got.Kind {
			t.Fatalf("%+v %+v %v", got, again, err)
		}
	})
}

// pair is a connection between two sides, with what each side's handshake said.
func pair(t *testing.T, server, client *tls.Config) (errServer, errClient error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	b, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	a, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	done := make(chan error, 1)
	go func() {
		c := tls.Server(a, server)
		err := c.HandshakeContext(t.Context())
		if err == nil {
			if _, err = c.Read(make([]byte, 1)); err == nil {
				_, err = c.Write([]byte("y"))
			}
		}
		_ = a.Close()
		done <- err
	}()
	c := tls.Client(b, client)
	if errClient = c.HandshakeContext(t.Context()); errClient == nil {
		if _, errClient = c.Write([]byte("x")); errClient == nil {
			// A server that refuses says so after the client's handshake.
			_, errClient = c.Read(make([]byte, 1))
		}
	}
	_ = b.Close()
	return <-done, errClient
}

func TestStrangersAreRefused(t *testing.T) {
	settings := func(secret, side string) *tls.Config {
		c, err := Secure(secret, side)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	home := settings("secret", SideHome)
	if errServer, errClient := pair(t, home, settings("secret", SideHelper)); errServer != nil || errClient != nil {
		t.Error(errServer, errClient)
	}
	for name, stranger := range map[string]*tls.Config{
		"another secret": settings("other", SideHelper),
		"the same side":  settings("secret", SideHome),
		"no key":         {InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
	} {
		if errServer, _ := pair(t, home, stranger); errServer == nil {
			t.Errorf("%s was taken by the node with the parameters", name)
		}
	}
	if _, errClient := pair(t, settings("other", SideHome), settings("secret", SideHelper)); errClient == nil {
		t.Error("a helper took a node with another secret")
	}
	// The request of a web page ends its connection at the first line.
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		defer b.Close()
		_, _ = io.WriteString(b, "POST / HTTP/1.1\r\n")
		_, _ = io.Copy(io.Discard, b)
	}()
	var plain tls.RecordHeaderError
	if err := tls.Server(a, home).Handshake(); !errors.As(err, &plain) {
		t.Errorf("a request of HTTP: %v", err)
	}
}

// A request whose connection ends is told so, and an answer that nobody asked for ends the connection.
func TestLinkEnds(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	l := New(a, 1<<10)
	go l.Read()
	answered := make(chan error, 1)
	go func() {
		_, err := l.Call(t.Context(), &Frame{Header: Header{Kind: "fetch"}})
		answered <- err
	}()
	f, err := ReadFrame(b, 0)
	if err != nil || f.Kind != "fetch" || f.Number != 1 {
		t.Fatal(f, err)
	}
	if err := WriteFrame(b, &Frame{Header: Header{Kind: "fetch", Number: 9}}); err != nil {
		t.Fatal(err)
	}
	var over *OverError
	if err := <-answered; !errors.As(err, &over) || !strings.Contains(err.Error(), "request 9, which nobody waits for") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := l.Call(ctx, &Frame{Header: Header{Kind: "fetch"}}); !errors.As(err, &over) {
		t.Error(err)
	}
}

// hasty is a connection whose other side has answered, and is gone, before a request is known to be written.
type hasty struct {
	net.Conn
	gone <-chan struct{}
}

func (h *hasty) Write(b []byte) (int, error) {
	n, err := h.Conn.Write(b)
	<-h.gone
	return n, err
}

// TestLastAnswerCounts reads an answer behind which the connection ends at once: every time, not by chance.
func TestLastAnswerCounts(t *testing.T) {
	for range 50 {
		a, b := net.Pipe()
		h := &hasty{Conn: a}
		l := New(h, 1<<10)
		h.gone = l.over
		go l.Read()
		go func() {
			defer b.Close()
			if f, err := ReadFrame(b, 0); err == nil {
				_ = WriteFrame(b, f)
			}
		}()
		if _, err := l.Call(t.Context(), &Frame{Header: Header{Kind: "end"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// A request that the other side does not take ends with its context, and so does one that waits behind it.
func TestCallEndsWithItsContext(t *testing.T) {
	a, b := net.Pipe() // which takes nothing that is not read
	defer b.Close()
	l := New(a, 1<<10)
	go l.Read()
	first, endFirst := context.WithCancel(t.Context())
	second, endSecond := context.WithCancel(t.Context())
	defer endSecond()
	calls := [2]chan error{make(chan error, 1), make(chan error, 1)}
	call := func(k int, ctx context.Context) {
		_, err := l.Call(ctx, &Frame{Header: Header{Kind: "fetch"}})
		calls[k] <- err
	}
	go call(0, first)
	for len(l.write) == 0 {
		time.Sleep(time.Millisecond)
	}
	go call(1, second)
	endSecond()
	if err := <-calls[1]; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-l.Over():
		t.Error("a request that was not written has ended the connection")
	default:
	}
	endFirst()
	if err := <-calls[0]; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-l.Over()
	var over *OverError
	if _, err := l.Call(t.Context(), &Frame{Header: Header{Kind: "fetch"}}); !errors.As(err, &over) {
		t.Error(err)
	}
}
