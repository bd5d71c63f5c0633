package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hare-sched/hare"
)

// otherNames are flags that people expect by another name.
var otherNames = map[string]string{"out": "output", "port": "listen", "address": "listen", "timeout": "time-limit",
	"token": "api-key-file", "policies": "policy", "key": "api-key-file"}

// explainFlagError says in one line which flag is wrong and how it is written.
func explainFlagError(c *cobra.Command, err error) error {
	see := fmt.Sprintf(" (see %s --help)", c.CommandPath())
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return usageError{errors.New(unknownFlag(c, unknown) + see)}
	case errors.As(err, &missing) && missing.GetFlag() != nil:
		f := missing.GetFlag()
		_, usage := pflag.UnquoteUsage(f)
		return usageError{fmt.Errorf("--%s needs a value: %s%s", f.Name, usage, see)}
	case errors.As(err, &value):
		f := value.GetFlag()
		return usageError{fmt.Errorf("--%s %.100q: %s%s", f.Name, value.GetValue(), badValue(c, f, value), see)}
	}
	return usageError{fmt.Errorf("%w%s", err, see)}
}

// unknownFlag names the flag that was meant.
func unknownFlag(c *cobra.Command, err *pflag.NotExistError) string {
	name, dashes := err.GetSpecifiedName(), "--"
	if group := err.GetSpecifiedShortnames(); group != "" { // -time-limit, or -x
		name, dashes = group, "-"
	}
	name, _, _ = strings.Cut(name, "=")
	text := fmt.Sprintf("unknown flag %s%.60s", dashes, name)
	var known, related []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		known = append(known, f.Name)
		for _, word := range strings.Split(f.Name, "-") {
			if len(word) > 2 && strings.EqualFold(word, name) {
				related = append(related, "--"+f.Name)
				return
			}
		}
	})
	other := otherNames[strings.ToLower(name)]
	switch near := hare.Nearest(hare.Cut(name, 60), known); {
	case near != "":
		return text + ": did you mean --" + near + "?"
	case other != "" && c.Flags().Lookup(other) != nil:
		return text + ": it is called --" + other
	case name == "job" && c.Name() == "explain":
		return text + ": name the job after the result"
	case len(related) > 0:
		return text + ": there is " + strings.Join(related, " and ")
	}
	return text
}

// badValue says what the value of a flag must look like.
func badValue(c *cobra.Command, f *pflag.Flag, err *pflag.InvalidValueError) string {
	text := strings.TrimSpace(err.GetValue())
	switch f.Value.Type() {
	case "duration":
		if fixed := withUnit(text); fixed != "" {
			return "a time has units, such as 2s, 10m or 1h30m: write " + fixed
		}
		return "give a time with its unit, such as 2s, 10m or 1h30m"
	case "float64":
		x, bad := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
		if bad == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
			return "give a fraction: write " + strconv.FormatFloat(x/100, 'g', 10, 64)
		}
		if point := strings.Replace(text, ",", ".", 1); point != text {
			if _, bad := strconv.ParseFloat(point, 64); bad == nil {
				return "write " + point
			}
		}
		return "give a number, such as 0.05"
	case "int", "int64", "uint64", "uint", "int32", "uint32":
		if errors.Is(err, strconv.ErrRange) {
			return "the number is too large, or too small"
		}
		if x, bad := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64); bad == nil && x == float64(int64(x)) &&
			(x >= 0 || !strings.HasPrefix(f.Value.Type(), "u")) && x < 1e15 {
			return fmt.Sprintf("give a whole number: write %d", int64(x))
		}
		if f.Name == "gpus" && c.Flags().Lookup("on") != nil {
			return "give their number, and their types by --on, as in --gpus 4 --on V100"
		}
		return "give a whole number"
	case "intSlice":
		return "give whole numbers, separated by commas"
	case "bool":
		return "give true or false"
	}
	return err.Unwrap().Error()
}

var timePart = regexp.MustCompile(`^([0-9]*\.?[0-9]+) *([a-zA-Zµ]*) *`)

// unitNames are the units of times, as people write them.
var unitNames = map[string]string{"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "m": "m",
	"min": "m", "mins": "m", "minute": "m", "minutes": "m", "h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
	"d": "d", "day": "d", "days": "d", "w": "w", "week": "w", "weeks": "w", "ms": "ms", "us": "us", "µs": "us"}

// withUnit writes a time that lacks a unit, or has one in other words, as Go reads it; "" where that fails. A number
// alone counts seconds, and one after hours or minutes counts minutes or seconds.
func withUnit(text string) string {
	next := map[string]string{"": "s", "h": "m", "m": "s"}
	out, last := "", ""
	for rest := text; rest != ""; {
		m := timePart.FindStringSubmatch(rest)
		if m == nil {
			return ""
		}
		rest = rest[len(m[0]):]
		unit, known := unitNames[strings.ToLower(m[2])], true
		if m[2] == "" {
			unit, known = next[last]
		}
		if !known || unit == "" {
			return ""
		}
		if hours := map[string]float64{"d": 24, "w": 168}[unit]; hours > 0 {
			x, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				return ""
			}
			m[1], unit = strconv.FormatFloat(x*hours, 'g', 10, 64), "h"
		}
		out, last = out+m[1]+unit, unit
	}
	if _, err := time.ParseDuration(out); err != nil {
		return ""
	}
	return out
}

// unknownSubcommand refuses the first argument of a command that has subcommands alone.
func unknownSubcommand(c *cobra.Command, args []string) error {
	known := subcommands(c)
	if len(args) == 0 || len(known) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("%s has no subcommand %.60q%s There are %s", c.CommandPath(), args[0],
		cmp.Or(hare.Guess(args[0], known), "."), strings.Join(known, ", "))}
}

// subcommands are the names of the subcommands that the help lists.
func subcommands(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// namesElsewhere are commands of Hare by the names that other tools have for them.
var namesElsewhere = map[string]string{
	"ls": "jobs", "list": "jobs", "ps": "jobs", "queue": "jobs", "squeue": "jobs", "status": "jobs", "top": "jobs",
	"nodes": "agents", "sinfo": "agents", "workers": "agents", "node": "agent", "worker": "agent",
	"run": "submit", "sbatch": "submit", "srun": "submit", "qsub": "submit", "kill": "cancel", "scancel": "cancel",
	"delete": "cancel", "start": "serve", "server": "serve", "optimize": "solve", "schedule": "solve", "draw": "plot",
	"gantt": "plot", "check": "verify", "sacct": "import", "load": "import", "compare": "shadow", "why": "explain",
}

// unknownCommand turns cobra's error about an unknown command into one that says which was meant.
func unknownCommand(root *cobra.Command, err error) error {
	m := regexp.MustCompile(`^unknown command "(.*)" for "(.*)"`).FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	name := m[1]
	text := fmt.Sprintf("unknown command %.60q", name)
	guess := hare.Guess(name, append(subcommands(root), "help"))
	if meant := namesElsewhere[name]; meant != "" {
		guess = fmt.Sprintf(": did you mean %q?", meant)
	}
	switch info, bad := os.Stat(name); {
	case guess != "":
		text += guess
	case bad == nil && !info.IsDir():
		text += ": say what to do with the file, as in hare solve " + name
	}
	return usageError{errors.New(text + " (see hare --help)")}
}
