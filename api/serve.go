package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hare-sched/hare/serve/service"
)

const (
	// shutdownTimeout is how long the last answers may take to be sent once no work is
	// running.
	shutdownTimeout = 5 * time.Second
	// arrivalTimeout is how long requests that have begun to arrive may take once no work is
	// running. They are refused then.
	arrivalTimeout = 500 * time.Millisecond
)

// Serve answers requests on l until ctx ends. Then it refuses new work, lets running
// work finish for the grace time, and afterwards ends the rest with its best results so
// far. Connections on which nothing but a client is slow are closed, which is no error.
func Serve(ctx context.Context, l net.Listener, h http.Handler, svc *service.Service, grace time.Duration) error {
	waits := arrivals{}
	srv := waits.server(h)
	srv.ReadHeaderTimeout, srv.IdleTimeout, srv.MaxHeaderBytes = 10*time.Second, 2*time.Minute, 64<<10
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// The listener stays open while the work ends, so that /readyz can answer 503.
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	svc.Drain(end)
	waits.end(time.Now().Add(arrivalTimeout))
	last, cancelLast := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancelLast()
	err := srv.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) { // some clients do not read their answers
		err = srv.Close()
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// arrivals are the connections on which a request has begun to arrive and has not arrived as
// a whole. The zero value is ready for use.
type arrivals struct {
	mu      sync.Mutex
	waiting map[net.Conn]struct{}
	until   time.Time // zero until end is called
}

// connKey is the key of the connection in the context of a request.
type connKey struct{}

// server makes a server of h whose connections the arrivals know.
func (as *arrivals) server(h http.Handler) *http.Server {
	return &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(c net.Conn, now http.ConnState) {
			switch now {
			case http.StateNew:
				as.add(c)
			case http.StateIdle, http.StateClosed, http.StateHijacked:
				as.remove(c)
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _ := r.Context().Value(connKey{}).(net.Conn)
			if r.Body == http.NoBody {
				as.remove(c)
			} else {
				as.add(c)
				r.Body = &arrival{r.Body, as, c}
			}
			h.ServeHTTP(w, r)
		}),
	}
}

func (as *arrivals) add(c net.Conn) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.waiting == nil {
		as.waiting = map[net.Conn]struct{}{}
	}
	as.waiting[c] = struct{}{}
	if !as.until.IsZero() {
		_ = c.SetReadDeadline(as.until)
	}
}

func (as *arrivals) remove(c net.Conn) {
	as.mu.Lock()
	defer as.mu.Unlock()
	delete(as.waiting, c)
}

// hold keeps a connection to the time that end gave, whatever deadline a handler has set since.
func (as *arrivals) hold(c net.Conn) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if _, waits := as.waiting[c]; waits && !as.until.IsZero() {
		_ = c.SetReadDeadline(as.until)
	}
}

// end lets all that arrives arrive until this time.
func (as *arrivals) end(until time.Time) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.until = until
	for c := range as.waiting {
		_ = c.SetReadDeadline(until) // a connection that is closed needs none
	}
}

// arrival is the body of a request.
type arrival struct {
	io.ReadCloser
	all  *arrivals
	conn net.Conn
}

// Read removes the connection from the arrivals at the end of the body. From then on net/http
// reads the connection to see whether the client leaves.
func (a *arrival) Read(b []byte) (int, error) {
	a.all.hold(a.conn)
	n, err := a.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) {
		a.all.remove(a.conn)
	}
	return n, err
}
