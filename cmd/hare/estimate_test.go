package main

import (
	"strings"
	"testing"
)

// A history that cannot be used is refused with the line, and the rules of one that can
// stand in a table, the best first.
func TestReadHistory(t *testing.T) {
	const heads = "arrival_s,duration_s,user\n"
	for text, want := range map[string]string{
		"":                 "h.csv: EOF",
		"arrival_s,user\n": "h.csv:1: the columns arrival_s and duration_s are needed",
		"arrival_s,duration_s,a,b,c,d,e,f,g,h,i\n": "h.csv:1: there are 9 columns",
		heads + "1,0,ann\n":                        `h.csv:2: duration_s is "0"`,
		heads + "1,5,ann\n-1,5,ann\n":              `h.csv:3: arrival_s is "-1"`,
		heads + "NaN,5,ann\n":                      `h.csv:2: arrival_s is "NaN"`,
		heads + "1,1e12,ann\n":                     `h.csv:2: duration_s is "1e12"`,
		heads + "1,5\n":                            "wrong number of fields",
		heads + "1,5,ann\n":                        "h.csv: there are 1 jobs",
	} {
		if _, err := readHistory("h.csv", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	jobs, err := readHistory("h.csv", strings.NewReader("user,arrival_s,duration_s,name\nann,1,2.5,bert\nbob,3,4,vgg\n"))
	if err != nil || len(jobs) != 2 || jobs[0].DurationS != 2.5 || jobs[0].Labels[0].Name != "name" ||
		jobs[1].Labels[1].Value != "bob" {
		t.Errorf("%+v, %v", jobs, err)
	}
}
