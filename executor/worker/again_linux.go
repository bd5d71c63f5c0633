package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
)

// Again calls f until its worker does not die, at most a number of times. What the module or its device does wrong is
// an error of one line, with its kind.
func Again(ctx context.Context, most int, f func() error) error {
	for n := 1; ; n++ {
		err := f()
		var crash *CrashError
		var fault *FaultError
		if errors.As(err, &fault) {
			if fault.Kind != "device" || n == most {
				return errors.New(fault.Kind + ": " + fault.Reason + footprint(fault))
			}
		} else if !errors.As(err, &crash) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if n == most {
			return fmt.Errorf("the worker died %d times in a row at the same call, the last time: %s", n, crash.Reason)
		}
		fmt.Fprintln(os.Stderr, "hare: a worker is started again:", err)
	}
}

// footprint says how much memory models took where there was too little.
func footprint(f *FaultError) string {
	if f.Kind != "oom" {
		return ""
	}
	return fmt.Sprintf(" (with %d bytes of models on the device)", f.FootprintBytes)
}

// MeanLoss is the mean of the losses of a round's tasks, as a text: NaN where one of them is missing.
func MeanLoss(losses []*float64) string {
	sum := 0.0
	for _, x := range losses {
		if x == nil {
			return "NaN"
		}
		sum += *x
	}
	mean := sum / float64(len(losses))
	if math.IsInf(mean, 0) {
		return "NaN"
	}
	return strconv.FormatFloat(mean, 'g', 6, 64)
}
