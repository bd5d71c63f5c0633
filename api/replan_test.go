package api_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/hare-sched/hare/wire"
)

// TestReplan plans the rest of a plan again. The answer follows its schema and
// passes verification against the whole instance and against the rest alone.
func TestReplan(t *testing.T) {
	sequential(t)
	h, _ := newServer(t)
	doc := specification(t)
	in := `{"instance":` + example(t)
	prev := request(t, h, "POST", "/v1/solves", in+`,"options":{"work_limit":300}}`).Body.String()
	w := request(t, h, "POST", "/v1/solves", in+`,"previous":`+prev+
		`,"at_s":3,"stability":0.5,"options":{"work_limit":300}}`)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	follows(t, doc, "POST", "/v1/solves", w.Code, w.Header(), w.Body.String())
	result := w.Body.String()
	res, err := wire.DecodeResult(strings.NewReader(result), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Replan == nil || res.Replan.AtUs != 3_000_000 || res.Replan.StabilityMicro != 500_000 ||
		res.Replan.Whole == nil {
		t.Fatalf("%+v", res.Replan)
	}
	var answer struct {
		Replan struct{ Instance json.RawMessage }
	}
	if err := json.Unmarshal([]byte(result), &answer); err != nil {
		t.Fatal(err)
	}
	for _, against := range []string{example(t), string(answer.Replan.Instance)} {
		w := request(t, h, "POST", "/v1/verify", `{"instance":`+against+`,"result":`+result+`}`)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"ok":true`) {
			t.Errorf("verify: %d %s", w.Code, w.Body)
		}
	}
	for name, c := range map[string]struct {
		more string
		code int
		want string
	}{
		"what it went on from": {`,"previous":` + prev, http.StatusOK, `"ok":true`},
		"and its instance": {`,"previous":` + prev + `,"previous_instance":` + example(t), http.StatusOK,
			`"ok":true`},
		"another instance": {`,"previous":` + prev + `,"previous_instance":` + string(answer.Replan.Instance),
			http.StatusOK, "another instance"},
		"an instance alone":         {`,"previous_instance":` + example(t), http.StatusUnprocessableEntity, "missing_field"},
		"an instant":                {`,"at_s":3`, http.StatusUnprocessableEntity, "unknown_field"},
		"a previous one of no form": {`,"previous":{}`, http.StatusUnprocessableEntity, "/previous/hare"},
	} {
		w := request(t, h, "POST", "/v1/verify", in+`,"result":`+result+c.more+`}`)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("verify with %s: %d %s", name, w.Code, w.Body)
		}
		follows(t, doc, "POST", "/v1/verify", w.Code, w.Header(), w.Body.String())
	}
	// The result of another, small instance is refused, although it is optimal for
	// that instance.
	toy := `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},"jobs":[{"id":"x",` +
		`"on":{"V100":{"compute_s":1}}}]}`
	solved := request(t, h, "POST", "/v1/solves", `{"instance":`+toy+`,"options":{"work_limit":1}}`).Body.String()
	forged := strings.Replace(solved, `"options":`, `"replan":{"at_s":0,"constant":0,`+
		`"instance_sha256":"`+res.Replan.InstanceSHA256+`","instance":`+toy+`},"options":`, 1)
	if w := request(t, h, "POST", "/v1/verify", in+`,"result":`+forged+`}`); !strings.Contains(w.Body.String(),
		`"ok":false`) || !strings.Contains(w.Body.String(), "nothing says what had started") {
		t.Errorf("a toy is accepted: %s", w.Body)
	}
	broken := strings.Replace(result, `"at_s":3,`, `"at_s":4,`, 1)
	if w := request(t, h, "POST", "/v1/verify", in+`,"result":`+broken+`}`); !strings.Contains(w.Body.String(),
		`"ok":false`) {
		t.Errorf("another instant is accepted: %s", w.Body)
	}
}

func TestBadReplans(t *testing.T) {
	h, _ := newServer(t)
	in := `{"instance":` + example(t)
	solve := func(options string) string {
		return request(t, h, "POST", "/v1/solves", in+`,"options":`+options+`}`).Body.String()
	}
	prev, bare := solve(quick), solve(`{"bound":"machine","order":"wspt","assign":"earliest_finish","detail":"jobs"}`)
	hash := regexp.MustCompile(`"instance_sha256":"[0-9a-f]{64}"`)
	for name, c := range map[string]struct{ body, pointer, code string }{
		"negative":    {in + `,"previous":` + prev + `,"at_s":-1}`, "/at_s", "out_of_range"},
		"beyond":      {in + `,"previous":` + prev + `,"at_s":100000}`, "/at_s", "nothing_left"},
		"no instant":  {in + `,"previous":` + prev + `}`, "", "missing_field"},
		"no previous": {in + `,"at_s":3}`, "", "missing_field"},
		"no schedule": {in + `,"previous":` + bare + `,"at_s":1}`, "/previous/schedule", "missing_field"},
		"other instance": {in + `,"previous":` + hash.ReplaceAllString(prev,
			`"instance_sha256":"`+strings.Repeat("0", 64)+`"`) + `,"at_s":1}`, "/previous/instance_sha256", "wrong_instance"},
		"no schedule of": {in + `,"previous":` + strings.Replace(prev, `"start_us":[0`, `"start_us":[1`, 1) + `,"at_s":1}`,
			"/previous/schedule", "refused"},
		"inside": {in + `,"previous":` + strings.Replace(prev, `"lanes":[`, `"lane":[`, 1) + `,"at_s":1}`,
			"/previous/schedule/lane", "unknown_field"},
		"stability": {in + `,"previous":` + prev + `,"at_s":1,"stability":-0.5}`, "/stability", "out_of_range"},
	} {
		w := request(t, h, "POST", "/v1/solves", c.body)
		if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"pointer":"`+c.pointer+`"`) ||
			!strings.Contains(w.Body.String(), c.code) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := request(t, h, "POST", "/v1/bounds", in+`,"at_s":3}`); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("bounds take at_s: %d", w.Code)
	}
}
