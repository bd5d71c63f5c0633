package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/hare-sched/hare/service"
)

// shutdownTimeout is how long the last answers may take to be sent once no work is
// running.
const shutdownTimeout = 5 * time.Second

// Serve answers requests on l until ctx ends. Then it refuses new work, lets running
// work finish for the grace time, and afterwards ends the rest with its best results so
// far.
func Serve(ctx context.Context, l net.Listener, h http.Handler, svc *service.Service, grace time.Duration) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10}
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
	last, cancelLast := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancelLast()
	err := srv.Shutdown(last)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
