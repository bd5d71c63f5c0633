package ledger

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// FuzzAgentDocuments gives a cluster in the middle of its work the documents of an agent: a registration and a sync.
// What the checks let pass must not make Apply panic or fail, and must leave a state that a snapshot can hold.
func FuzzAgentDocuments(f *testing.F) {
	f.Add(uint64(1), []byte(`{"protocol":4,"name":"n1","incarnation":"one of sixteen bytes","devices":[{"type":"V100"}],`+
		`"holds":[{"job":"j1","attempt":1,"task":0,"state":"running"}]}`),
		[]byte(`{"epoch":1,"reports_after":0,"orders_seen":1,"faults":{"0":"XID 79"},"reports":[{"job":"j1","attempt":1,`+
			`"task":0,"state":"ended","exit_code":0,"ran_s":3.5,"round":4,"loss":"NaN"}]}`))
	f.Add(uint64(2), []byte(`{"protocol":4,"name":"n0","incarnation":"one of sixteen bytes","devices":[{"type":"V100"},`+
		`{"type":"T4"}]}`), []byte(`{"epoch":2,"reports":[{"job":"j2","attempt":1,"task":7,"state":"lost","signal":"x"}]}`))
	journals := map[uint64][]Record{}
	journal := func(t *testing.T, seed uint64) []Record {
		if journals[seed] == nil {
			journals[seed] = randomJournal(t, rand.New(rand.NewPCG(seed, 3)), 100)
		}
		return journals[seed]
	}
	f.Fuzz(func(t *testing.T, seed uint64, registration, sync []byte) {
		l := New()
		for _, r := range journal(t, seed%64) {
			if err := l.Apply(&r); err != nil {
				t.Fatal(err)
			}
		}
		apply := func(r *Record) {
			t.Helper()
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var read Record
			if err := json.Unmarshal(line, &read); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if err := l.Apply(&read); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if diff := compare(l, restored(t, l)); diff != "" {
				t.Fatal(diff)
			}
		}
		var r clusterdoc.Registration
		if json.Unmarshal(registration, &r) == nil && CheckRegistration(&r) == nil &&
			l.Registrable(&r, func(string) bool { return seed%2 == 0 }) == nil {
			apply(&Record{Register: &Register{Registration: r}})
		}
		var s clusterdoc.Sync
		if json.Unmarshal(sync, &s) != nil {
			return
		}
		for _, name := range l.AgentNames() {
			s := s
			s.Reports = slices.Clone(s.Reports)
			epoch, seen, _, _ := l.Agent(name)
			if CheckSync(&s, l.Devices(name)) == nil {
				apply(&Record{Sync: &SyncRecord{AgentEpoch: AgentEpoch{name, epoch}, After: seen, Reports: s.Reports,
					Faults: &s.Faults}})
			}
		}
	})
}
