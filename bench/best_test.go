package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
)

func amount(t *testing.T, text string) *hare.Amount {
	t.Helper()
	a, err := hare.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

// TestKnownIsSound reads the table of the repository, in which no bound is above a value.
func TestKnownIsSound(t *testing.T) {
	all, err := Known()
	if err != nil {
		t.Fatal(err)
	}
	for sha, b := range all {
		if len(sha) != 64 || (b.Value == nil) != (b.ValueBy == "") || (b.Bound == nil) != (b.BoundBy == "") {
			t.Errorf("%+v", b)
		}
	}
	var text bytes.Buffer
	if err := WriteBest(&text, all); err != nil {
		t.Fatal(err)
	}
	if text.String() != bestCSV {
		t.Error("best.csv is not as WriteBest writes it")
	}
}

func TestBadTables(t *testing.T) {
	head := strings.Join(bestColumns, ",") + "\n"
	for text, want := range map[string]string{
		"": "the first line", "a,b,c,d,e,f\n": "the first line", head + "x,y,1,by\n": "wrong number of fields",
		head + "x,y,one,by,,\n": "line 2", head + "x,y,1,by,2,by\n": "above its value",
	} {
		if _, err := ReadBest(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestImprove takes better values and bounds, and no bounds of other methods, and tells how far rows are from
// the best.
func TestImprove(t *testing.T) {
	all := map[string]*Best{"s": {Instance: "x", SHA256: "s", Value: amount(t, "110"), ValueBy: "old",
		Bound: amount(t, "100"), BoundBy: "old"}}
	rep := &GapReport{Rows: []*GapRow{
		{Instance: "x", SHA256: "s", Method: GapHare, Value: amount(t, "121"), Bound: amount(t, "80"), Cell: "c"},
		{Instance: "x", SHA256: "s", Method: GapCPSAT, Value: amount(t, "108"), Bound: amount(t, "107")},
		{Instance: "x", SHA256: "s", Method: GapHare, Value: amount(t, "109"), Bound: amount(t, "101"), Cell: "c"},
		{Instance: "y", SHA256: "u", Method: GapHare, Bound: amount(t, "1")},
	}}
	for _, row := range rep.Rows {
		row.compare(all[row.SHA256])
	}
	if r := rep.Rows[0]; signed(r.OverBest) != "+10.00 %" || signed(r.UnderBest) != "+25.00 %" {
		t.Errorf("%s %s", signed(r.OverBest), signed(r.UnderBest))
	}
	if s := rep.Summary()[0]; signed(s.OverBest) != "+4.55 %" || signed(s.UnderBest) != "+12.00 %" {
		t.Errorf("%s %s", signed(s.OverBest), signed(s.UnderBest))
	}
	if n := rep.Improve(all, func(row *GapRow) string { return row.Method }); n != 3 {
		t.Errorf("%d changes", n)
	}
	if b := all["s"]; b.Value.String() != "108" || b.ValueBy != GapCPSAT || b.Bound.String() != "101" ||
		b.BoundBy != GapHare || all["u"].Value != nil {
		t.Errorf("%+v %+v", b, all["u"])
	}
}
