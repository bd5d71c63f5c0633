package slurm

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The metrics have the counts of the last loop, each name once.
func TestMetrics(t *testing.T) {
	h := testHelper(t, newFakeSlurm(), t.TempDir(), nil)
	for _, want := range []string{"\nhare_slurm_loops_total 0\n", "\nhare_slurm_loops_total 1\n"} {
		w := httptest.NewRecorder()
		h.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d without %q: %s", w.Code, want, w.Body)
		}
		if _, err := h.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
