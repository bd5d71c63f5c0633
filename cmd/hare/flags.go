package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hare-sched/hare"
)

// The rule of a flag restricts its values. A number without a rule must not be
// negative, and a text must not be empty.
const (
	ruleKey = "hare_rule"

	rulePositive  = "positive" // above zero, where zero would mean nothing or the default
	ruleMebibytes = "mebibytes"
	ruleFraction  = "fraction" // from 0 to 1
	ruleAny       = "any"
)

// maxMebibytes keeps the number of bytes from overflowing an int64.
const maxMebibytes = 1 << 40

// positive marks number flags that must be above zero.
func positive(c *cobra.Command, names ...string) { mark(c.Flags(), rulePositive, names) }

// fraction marks number flags that are from 0 to 1.
func fraction(c *cobra.Command, names ...string) { mark(c.Flags(), ruleFraction, names) }

// mebibytes marks number flags whose unit is a MiB.
func mebibytes(c *cobra.Command, names ...string) { mark(c.Flags(), ruleMebibytes, names) }

// anyValue marks flags that accept every value, such as a seed or a note.
func anyValue(c *cobra.Command, names ...string) { mark(c.Flags(), ruleAny, names) }

func mark(f *pflag.FlagSet, rule string, names []string) {
	for _, name := range names {
		rules := append(f.Lookup(name).Annotations[ruleKey], rule)
		if err := f.SetAnnotation(name, ruleKey, rules); err != nil {
			panic(err) // a mistake of the caller: the flag does not exist
		}
	}
}

// checkFlags checks the flags that were given against their rules.
func checkFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if err != nil {
			return
		}
		if bad := checkFlag(f); bad != "" {
			err = usageError{fmt.Errorf("--%s must %s (see %s --help)", f.Name, bad, c.CommandPath())}
		}
	})
	return err
}

// checkFlag returns what the value of a flag must be; "" where the value is allowed.
func checkFlag(f *pflag.Flag) string {
	has := func(rule string) bool { return slices.Contains(f.Annotations[ruleKey], rule) }
	if has(ruleAny) {
		return ""
	}
	text := f.Value.String()
	var x float64
	switch f.Value.Type() {
	case "string":
		if text == "" {
			return "not be empty: leave it out for the default"
		}
		return ""
	case "stringSlice", "stringArray":
		all := f.Value.(pflag.SliceValue).GetSlice()
		for _, s := range all {
			if s == "" {
				return "not have empty parts"
			}
		}
		if len(all) == 0 {
			return "not be empty: leave it out for the default"
		}
		return ""
	case "duration":
		d, err := time.ParseDuration(text)
		if err != nil {
			return err.Error()
		}
		x = float64(d)
	case "int", "int64", "uint64", "float64":
		var err error
		if x, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return "be a number, not " + text
		}
	default:
		return ""
	}
	switch {
	case x < 0:
		return "not be negative, and is " + text
	case x == 0 && has(rulePositive):
		return "be positive, and is " + text
	case x > 1 && has(ruleFraction):
		return fmt.Sprintf("be a fraction from 0 to 1, and is %s: for %s %% give %s", text, text,
			strconv.FormatFloat(x/100, 'g', 10, 64))
	case x > maxMebibytes && has(ruleMebibytes):
		return fmt.Sprintf("be at most %d, and is %s", int64(maxMebibytes), text)
	}
	return ""
}

// flagMicros parses seconds, or a duration such as 1h30m, and returns microseconds.
func flagMicros(text string) (int64, error) {
	us, err := hare.ParseMicros(text)
	if d, bad := time.ParseDuration(text); err != nil && bad == nil && d%time.Microsecond == 0 {
		return d.Microseconds(), nil
	}
	return us, err
}
