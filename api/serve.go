package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/hare-sched/hare/service"
)

// lastWords is how long answers may take to go out once nothing runs any more.
const lastWords = 5 * time.Second

// Serve answers on l until ctx ends; then it stops taking work, lets what runs
// finish for the grace time, and ends the rest with its best pair.
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
	// The listener stays open meanwhile, so that /readyz can say 503.
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	svc.Drain(end)
	last, cancelLast := context.WithTimeout(context.Background(), lastWords)
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
