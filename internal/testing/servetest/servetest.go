// Package servetest helps tests that serve the HTTP interface.
package servetest

import (
	"context"
	"net/http"
	"testing"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
)

// Solves keeps solves in memory until the end of the test.
func Solves(tb testing.TB, svc *service.Service) *solves.Solves {
	tb.Helper()
	kept, err := solves.Open(context.Background(), solves.Config{Service: svc, Store: store.NewMemorySolves()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := kept.Close(); err != nil {
			tb.Error(err)
		}
	})
	return kept
}

// New is api.New with solves that are kept in memory until the end of the test, where cfg has none.
func New(tb testing.TB, svc *service.Service, cfg api.Config) http.Handler {
	tb.Helper()
	if cfg.Solves == nil {
		cfg.Solves = Solves(tb, svc)
	}
	return api.New(svc, cfg)
}
