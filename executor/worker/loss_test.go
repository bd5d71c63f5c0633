package worker

import "testing"

func TestLossLine(t *testing.T) {
	one, two := 1.0, 2.0
	for want, losses := range map[string][]*float64{
		"round 4: loss 1.5": {&one, &two},
		"round 4: loss NaN: that of task 1 is infinite or not a number":               {&one, nil, &two},
		"round 4: loss NaN: that of task 0 and of 2 more is infinite or not a number": {nil, nil, &one, nil},
	} {
		if got := LossLine(4, losses); got != want {
			t.Errorf("%q and not %q", got, want)
		}
	}
}
