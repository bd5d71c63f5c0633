package clusters_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var update = flag.Bool("update", false, "write testdata/protocol.txt again")

// TestProtocol holds the members of what agents and the server tell each other under the version of the protocol. An
// agent that does not know a member of an order does something else than it was told, so that a new member needs a
// new version: raise ProtocolVersion, and run the test with -update.
func TestProtocol(t *testing.T) {
	b := &strings.Builder{}
	fmt.Fprintf(b, "protocol %d\n", clusterdoc.ProtocolVersion)
	for _, v := range []any{clusterdoc.Registration{}, clusterdoc.Registered{}, clusterdoc.Sync{},
		clusterdoc.Synced{}, clusterdoc.LogChunk{}, clusterdoc.LogStored{},
		clusterdoc.CheckpointChunk{}, clusterdoc.CheckpointStored{}} {
		members(b, reflect.TypeOf(v).Name(), reflect.TypeOf(v))
	}
	if *update {
		if err := os.WriteFile("testdata/protocol.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/protocol.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("the messages have changed: raise ProtocolVersion and run the test with -update. They are\n%s", b)
	}
}

// members writes a line for each member of a message, with its path and type.
func members(b *strings.Builder, at string, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			at += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[json.RawMessage]() {
		fmt.Fprintln(b, at, t)
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			name = clusterdoc.SecretHeader
		}
		if name == "" { // an embedded struct, whose members follow
			continue
		}
		members(b, at+"/"+name, f.Type)
	}
}
