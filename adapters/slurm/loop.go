package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare/adapters/metrics"
	"github.com/hare-sched/hare/wire"
)

// RefusedError says why the helper would have no effect on this cluster, and what to do.
type RefusedError struct{ Reason, Remedy string }

func (e *RefusedError) Error() string { return e.Reason + ": " + e.Remedy }

// Check asks Slurm whether it would use what the helper writes, and whether it hands out CPUs and memory:
// without Check, plans go by GPUs alone. The error is *RefusedError where Slurm would not.
// Where the helper may write, constraints of an earlier one that keep jobs from starting are taken back also then.
func (h *Helper) Check(ctx context.Context) error {
	err := h.check(ctx)
	var refused *RefusedError
	if !h.cfg.Write || !errors.As(err, &refused) {
		return err
	}
	if state, faultOfRead := Read(ctx, h.commands, h.now); faultOfRead == nil {
		state.CPUs, state.Memory = h.cpus, h.memory
		if _, fault := h.free(ctx, state); fault != nil {
			return errors.Join(err, fault)
		}
	}
	return err
}

func (h *Helper) check(ctx context.Context) error {
	text, err := h.commands.Run(ctx, nil, "scontrol", "show", "config")
	if err != nil {
		return err
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, "="); ok {
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	if values["SelectType"] != "select/linear" { // which gives whole nodes to jobs
		unit := strings.ToUpper(values["SelectTypeParameters"])
		h.cpus = slices.ContainsFunc([]string{"CR_CORE", "CR_CPU", "CR_SOCKET"}, func(name string) bool {
			return strings.Contains(unit, name)
		})
		h.memory = strings.Contains(unit, "MEMORY")
	}
	if p := values["PriorityType"]; h.cfg.Order != OrderNone && p != "priority/multifactor" {
		return &RefusedError{fmt.Sprintf("this Slurm has PriorityType=%s, under which it ignores what orders jobs", p),
			"set PriorityType=priority/multifactor in slurm.conf and restart slurmctld (all weights may stay 0: the order " +
				"without Hare is then by submission, as before), or use --order none"}
	}
	if p := values["PrioritySiteFactorPlugin"]; h.cfg.Order == OrderSite && p != "" && p != "(null)" {
		return &RefusedError{"this Slurm has PrioritySiteFactorPlugin=" + p + ", which sets SiteFactor itself",
			"use --order nice, or remove the plugin from slurm.conf"}
	}
	if (h.cfg.Order == OrderNice || h.cfg.Order == OrderNiceUser) && !weighs(values) {
		return &RefusedError{"all weights of priorities are 0 in this Slurm, so that no priority is above 1 and nice " +
			"values have no room", "use --order site, or set a weight that all jobs share in slurm.conf, such as " +
			"PriorityWeightPartition=100000 with PriorityJobFactor=1 for all partitions"}
	}
	if h.cfg.GPUType != TypeNone {
		state, err := Read(ctx, h.commands, h.now)
		if err != nil {
			return err
		}
		features := typeFeatures(state.Nodes)
		for _, t := range state.typesOf() {
			if features[t] == "" {
				return &RefusedError{fmt.Sprintf("no feature of nodes tells which of them have GPUs of type %s", t),
					fmt.Sprintf("give the nodes with this type, and no others, Feature=%s in slurm.conf, or use --gpu-type none", t)}
			}
		}
	}
	return nil
}

// weighs reports whether a weight of Slurm's priorities is above 0.
func weighs(config map[string]string) bool {
	for key, value := range config {
		if strings.HasPrefix(key, "PriorityWeight") && value != "0" && value != "(null)" {
			return true
		}
	}
	return false
}

// Result is what a loop did.
type Result struct {
	Updates []Update // that were written, or would have been; first those that free jobs
	Left    int      // further ones, for later loops
	Plan    *wire.SessionPlan
	Jobs    int // that take part
	Waiting int // entries of the queue that wait
}

// Step is one loop: it reads, lets the session plan, and writes the differences. An error means
// that nothing was written, or that scontrol failed; the cluster goes on either way.
func (h *Helper) Step(ctx context.Context) (*Result, error) {
	result, err := metrics.Run(&h.counted.Loops, func() (*Result, error) { return h.step(ctx) })
	h.counted.Sessions, h.counted.PlanSeconds = h.session.Begun, h.session.PlanSeconds
	h.shown.Set(h.counted.shown())
	return result, err
}

func (h *Helper) step(ctx context.Context) (*Result, error) {
	state, err := Read(ctx, h.commands, h.now)
	if err != nil {
		return nil, err
	}
	h.counted.Unread += state.Unread
	if state.Unread > 0 && h.unread != state.FirstUnread {
		h.cfg.Logger.Warn("values of Slurm's answers cannot be read and are set aside", "values", state.Unread,
			"first", state.FirstUnread)
	}
	h.unread = state.FirstUnread
	state.CPUs, state.Memory = h.cpus, h.memory
	freed, err := h.free(ctx, state)
	if err != nil {
		return nil, err
	}
	for i := range state.Jobs { // the session gets what users want, without what the helper wrote
		if j := &state.Jobs[i]; j.Features != "" {
			if own, ok := h.journal.own(&Record{ID: j.Entry, SubmitS: j.SubmitUs / 1e6}, "Features", j.Features); ok {
				j.Features = own
			}
		}
	}
	told := state.forSession(h.cfg.Speeds)
	plan, err := h.session.Plan(ctx, told)
	if err != nil {
		return nil, fmt.Errorf("no plan, nothing is written: %w", err)
	}
	list := entriesOf(h.session.Order(plan), state)
	h.watch(state, list)
	updates := h.differences(state, told, list, freed)
	result := &Result{Plan: plan, Jobs: int(h.counted.Jobs), Waiting: len(state.Records)}
	if len(updates) > h.cfg.MaxUpdates {
		updates, result.Left = updates[:h.cfg.MaxUpdates], len(updates)-h.cfg.MaxUpdates
	}
	result.Updates = append(freed, updates...)
	if !h.cfg.Write || len(updates) == 0 {
		return result, nil
	}
	return result, h.write(ctx, "write", updates)
}

// Reset undoes what the journal says that the helper wrote, where it still stands, and takes the helper's
// notes out of the comments of waiting jobs.
func (h *Helper) Reset(ctx context.Context) ([]Update, error) {
	state, err := Read(ctx, h.commands, h.now)
	if err != nil {
		return nil, err
	}
	var updates []Update
	for _, id := range sortedKeys(state.Records) {
		r := state.Records[id]
		stands := map[string]string{"SiteFactor": strconv.FormatInt(r.Site, 10), "Nice": strconv.FormatInt(r.Nice, 10),
			"Features": r.Features, "Prefer": r.Prefer}
		for _, field := range []string{"SiteFactor", "Nice", "Features", "Prefer"} {
			own, ok := h.journal.own(r, field, stands[field])
			if !ok && field == "SiteFactor" && r.Site != 0 && h.cfg.takesPart(r) {
				own, ok = "0", true // without the journal: nobody but Hare sets the factor of these jobs
			}
			if ok && own != stands[field] {
				updates = append(updates, Update{Job: id, SubmitS: r.SubmitS, Field: field, Old: stands[field], New: own,
					Reason: "reset", own: own})
			}
		}
	}
	for _, id := range sortedKeys(state.Records) {
		if u, ok := unpredict(state.Records[id], "reset"); ok {
			updates = append(updates, u)
		}
	}
	if !h.cfg.Write || len(updates) == 0 {
		return updates, nil
	}
	return updates, h.write(ctx, "reset", updates)
}
