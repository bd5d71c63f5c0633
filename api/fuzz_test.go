package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
)

// FuzzRequests checks that every request, whatever its path and body, gets JSON
// with a status of the specification, and never a 500.
func FuzzRequests(f *testing.F) {
	const instance = `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2}}]},"jobs":[{"id":"x",` +
		`"on":{"V100":{"compute_s":1}}}]}`
	for _, body := range []string{
		"", "{", "[]", "null", `{"instance":` + instance + `}`,
		`{"instance":` + instance + `,"options":{"gap":1e-9,"seed":-1}}`,
		`{"instance":` + instance + `,"method":"machine"}`,
		`{"instance":` + instance + `,"result":{"hare":"result/v1","schedule":null}}`,
		`{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","count":2000000000,"gpus":{"V100":2}}]},` +
			`"jobs":[]}}`,
	} {
		f.Add("/v1/solves", "", "", []byte(body))
		f.Add("/v1/bounds", "", "application/json", []byte(body))
		f.Add("/v1/verify", "gzip", "*/*;q=0.1", []byte(body))
		f.Add("/v1/verify", "zstd", "text/html", []byte(gzipped(body)))
	}
	h := servetest.New(f, service.New(service.Config{Engine: ready{&hare.Result{}}}), api.Config{MaxBodyBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, path, encoding, accept string, body []byte) {
		if !slices.Contains([]string{"/v1/solves", "/v1/bounds", "/v1/verify"}, path) {
			return
		}
		w := request(t, h, http.MethodPost, path, string(body), "Content-Encoding", encoding, "Accept", accept)
		if !slices.Contains([]int{200, 400, 406, 413, 415, 422}, w.Code) {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("not JSON: %s", w.Body)
		}
	})
}
