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

// LossLine is the line that says what a round came to. It names a task whose loss is missing.
func LossLine(round int64, losses []*float64) string {
	line := fmt.Sprintf("round %d: loss %s", round, MeanLoss(losses))
	first, more := -1, 0
	for task, x := range losses {
		if x == nil && first < 0 {
			first = task
		} else if x == nil {
			more++
		}
	}
	switch {
	case first < 0:
		return line
	case more > 0:
		return fmt.Sprintf("%s: that of task %d and of %d more is infinite or not a number", line, first, more)
	}
	return fmt.Sprintf("%s: that of task %d is infinite or not a number", line, first)
}
