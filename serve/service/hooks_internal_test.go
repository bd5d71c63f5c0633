package service

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hare-sched/hare"
)

// TestHooksMayBeNil checks that missing hooks are skipped and that the others get
// their arguments.
func TestHooksMayBeNil(t *testing.T) {
	var seen []any
	full := Hooks{
		Predicted: func(predicted, took time.Duration) { seen = append(seen, predicted, took) },
		Cached:    func(hit bool) { seen = append(seen, hit) },
		Committed: func(_ context.Context, _ time.Time, bytes int, err error) { seen = append(seen, bytes, err) },
	}
	failed := errors.New("full")
	for _, h := range []*Hooks{{}, &full} {
		h.waited(t.Context(), time.Now(), nil)
		h.predicted(time.Second, time.Minute)
		h.cached(true)
		h.committed(t.Context(), time.Now(), 7, failed)
		_, ended := h.solving(t.Context(), nil, hare.Options{})
		ended(nil, nil)
	}
	if want := []any{time.Second, time.Minute, true, 7, failed}; !slices.Equal(seen, want) {
		t.Errorf("%v, not %v", seen, want)
	}
}
