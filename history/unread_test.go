package history

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

// TestDecodeUnread takes members that do not fit out of a document and keeps the others.
func TestDecodeUnread(t *testing.T) {
	type inner struct {
		Start slurmNumber
		Names []string
	}
	type outer struct {
		Name string `json:"name"`
		Time inner  `json:"time"`
	}
	for _, x := range []struct {
		text   string
		want   outer
		unread int64
	}{
		{`{"name":"a","time":{"Start":5,"Names":["x"]}}`, outer{"a", inner{5, []string{"x"}}}, 0},
		{`{"time":{"Start":"soon","Names":["x"]},"name":"a"}`, outer{"a", inner{0, []string{"x"}}}, 1},
		{`{"time":{"Start":5,"Names":["x",7,"y"]},"name":{}}`, outer{"", inner{5, []string{"x", "y"}}}, 2},
		{`{"name":"a","time":[1]}`, outer{Name: "a"}, 1},
		{`{"name":"a","time":{"Start":1e300},"other":[{}]}`, outer{Name: "a"}, 1},
	} {
		var got outer
		r := &Report{}
		if err := r.decode(json.RawMessage(x.text), &got, Place{File: "f", At: "/jobs/3"}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, x.want) || r.Unread() != x.unread {
			t.Errorf("%s: got %+v and %+v", x.text, got, r.SetAside)
		}
	}
	r := &Report{}
	_ = r.decode(json.RawMessage(`{"time":{"Start":"soon"}}`), &outer{}, Place{File: "f", At: "/jobs/3"})
	want := `[{time.Start has another form than is known: counts as not told 1 f#/jobs/3/time/Start: "soon"}]`
	if got := fmt.Sprint(r.SetAside); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, text := range []string{`[]`, `7`, `"x"`, `nul`} {
		if err := r.decode(json.RawMessage(text), &outer{}, Place{}); err == nil {
			t.Errorf("%s is no object, and was taken", text)
		}
	}
	for pointer, want := range map[string]string{"": "a value", "/0": "a value", "/": "a value", "/jobs": "jobs",
		"/jobs/3": "jobs", "/jobs/3/time/start": "time.start", "/name": "name"} {
		if got := memberName(pointer); got != want {
			t.Errorf("%q: got %q, want %q", pointer, got, want)
		}
	}
}
