package shadow

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"time"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/plot/web"
)

// pageBody is the markup of the page. The page begins with what a manager reads; figures for
// engineers follow.
var pageBody = template.Must(template.New("").Parse(`<h1>What Hare would have made of these jobs</h1>{{.Theme}}
<p class="soft">{{.What}}</p>
{{range .Summary}}<p>{{.}}</p>
{{end}}{{with .Bars}}<figure tabindex="0">{{.}}</figure>
{{end}}{{template "table" .Rows}}
{{with .Queue}}<figure tabindex="0">{{.}}</figure>{{end}}
<dl>{{range .Names}}<dt>{{.Head}}</dt><dd>{{.Text}}</dd>{{end}}</dl>
<h2>Can the simulation be believed?</h2>
{{range .Fair}}<p>{{.}}</p>
{{end}}{{with .CDF}}<figure tabindex="0">{{.}}</figure>
{{end}}<h2>Who gains, who pays</h2>
<p>{{.Gains}}</p>
{{template "table" .Users}}
{{with .Most}}<h3>Jobs that would have gained most</h3>
{{template "table" .}}{{end}}
{{with .Least}}<h3>Jobs that would have paid most</h3>
{{template "table" .}}{{end}}
<h2>Where the time is lost</h2>
{{with .Steps}}{{template "table" .}}
<p class="soft">Each line takes one limit more away and gives the best plan found without it, so that the differences
say about what that limit costs. Only the last line is proved.</p>
{{end}}{{template "table" .Idle}}
<p class="soft">Shares of the GPU time in service until the last job was submitted, looked at 2,000 times. Held:
jobs had the GPU; slower: the part of that which the job would not have needed on its fastest type. The other columns
are idle time: no job: no waiting job could use the type; order: a waiting job had room; fragmented: there were enough
GPUs, but not where the job needed them, or not with its CPUs and memory; narrow: waiting jobs needed more GPUs than
were free.</p>
<h2>GPU hours by type</h2>
{{template "table" .Hours}}
<h2>What was counted and assumed</h2>
<ul>{{range .Counted}}<li>{{.}}</li>
{{end}}</ul>
{{range .Notes}}<h3>{{.Head}}</h3>
{{template "table" .Table}}
{{end}}<h2>How to check it</h2>
<ul>{{range .Checks}}<li>{{.}}</li>
{{end}}</ul>
` + web.TableTemplate))

type pageNotes struct {
	Head  string
	Table web.Table
}

// pageData is what the markup shows.
type pageData struct {
	What, Gains              string
	Names                    []headText
	Theme, Bars, Queue, CDF  template.HTML
	Summary, Fair            []string
	Counted, Checks          []string
	Rows, Users, Idle, Hours web.Table
	Most, Least, Steps       *web.Table
	Notes                    []pageNotes
}

// headText is a name and what it means.
type headText struct{ Head, Text string }

// maxUsers limits the users of the page; the report has all.
const maxUsers = 40

// Page writes the report as one HTML page, which loads nothing from elsewhere.
func (r *Report) Page(w io.Writer) error {
	d := &pageData{Theme: web.ThemeButton, What: r.what(), Summary: r.summary(), Fair: r.fair(), Counted: r.counted(),
		Rows: r.rowTable(), Users: r.userTable(), Idle: r.idleTable(), Hours: r.hourTable(), Checks: r.checks(),
		Most: r.jobTable(r.Most), Least: r.jobTable(r.Least), Notes: r.notes()}
	d.Gains = fmt.Sprintf("With Hare, %s would have ended over a minute earlier, by %s hours "+
		"together, and %s over a minute later, by %s hours together.", words.Count(r.Gain.Jobs, "job"), number(r.Gain.Hours),
		words.Count(r.Pay.Jobs, "job"), number(r.Pay.Hours))
	gain, pay := r.usersWho()
	d.Gains += fmt.Sprintf(" Taken together, the jobs of %s would have ended earlier, and those of %s later.",
		words.Count(gain, "user"), words.Count(pay, "user"))
	for _, x := range r.rows() {
		d.Names = append(d.Names, headText{x.name, x.text})
	}
	d.Names = append(d.Names,
		headText{"no scheduler below", "the certified bound on the mean completion; on the 95th percentile, that of the " +
			"times that jobs take alone on their fastest types"},
		headText{"wait, completion", "the times from submission to start and to end"},
		headText{"p95", "95 of 100 jobs are at or below it"},
		headText{"above the bound", "by how much the mean is above what no scheduler can go below, rounded up"},
		headText{"checked", "the verifier accepts the schedule, start by start"})
	if len(r.Losses.Steps) > 0 {
		t := &web.Table{Words: 1, Heads: []string{"", "mean completion", "difference"}}
		for i, s := range r.Losses.Steps {
			row := []string{s.Text, duration(s.MeanS), ""}
			if i > 0 {
				row[2] = "−" + duration(r.Losses.Steps[i-1].MeanS-s.MeanS)
			}
			t.Rows = append(t.Rows, row)
		}
		d.Steps = t
	}
	var err error
	if d.Bars, err = r.bars(); err != nil {
		return err
	}
	if d.Queue, err = r.queue(); err != nil {
		return err
	}
	if d.CDF, err = r.cdf(); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := pageBody.Execute(&b, d); err != nil {
		return err
	}
	page := web.Page{Kind: web.Report, Title: "Hare: shadow of " + r.Source.Source, Body: b.String()}
	return page.Write(w)
}

// what says which jobs and GPUs the page is about.
func (r *Report) what() string {
	from := time.UnixMicro(r.OriginUs).UTC()
	until := from.Add(time.Duration(r.WindowS * float64(time.Second)))
	gpus := ""
	for i, t := range r.GPUs {
		if i > 0 {
			gpus += ", "
		}
		gpus += fmt.Sprintf("%d %s", t.GPUs, t.Type)
	}
	return fmt.Sprintf("%s from %s, %s to %s UTC, on %s.", words.Count(r.Jobs, "job"), r.Source.Source,
		from.Format("2006-01-02 15:04"), until.Format("2006-01-02 15:04"), gpus)
}

// summary says the outcome in sentences.
func (r *Report) summary() []string {
	kind := "on average"
	if !r.WeightsOne {
		kind = "on average (without weights)"
	}
	out := []string{fmt.Sprintf("From submission to end, jobs took %s %s, of which they waited %s. Hare, which would "+
		"have known only what was known at each time, would have taken %s, of which jobs wait %s: mean completion %s.",
		duration(r.Happened.MeanCompletionS), kind, duration(r.Happened.MeanWaitS), duration(r.Online.MeanCompletionS),
		duration(r.Online.MeanWaitS), r.Saved.Completion.sentence())}
	if r.fairness() != fair {
		out = append(out, fmt.Sprintf("The simulation misses something that this cluster does: Slurm's own rule, simulated "+
			"on the same jobs, comes to a mean completion of %s instead of %s.", duration(r.Slurm.MeanCompletionS),
			duration(r.Happened.MeanCompletionS)))
	}
	switch r.fairness() {
	case simulatedBetter:
		out = append(out, "What Hare would have saved is therefore better read against the simulated Slurm: mean "+
			"completion "+r.SavedSimulated.Completion.sentence()+".")
	case simulatedWorse:
		out = append(out, "What happened is the better of the two, so what Hare would have saved is read against it, as "+
			"above.")
	}
	b := &r.Bound
	if b.MeanCompletionS != nil {
		out = append(out, fmt.Sprintf("No scheduler could have gone below %s, which is proved: %s that the jobs take by "+
			"themselves on their fastest GPU types, and %s of waiting, or of slower types, that nobody can avoid. This "+
			"holds for schedulers that know all jobs beforehand, that run each job without interruption, and if the "+
			"times on types where a job did not run are right.", duration(*b.MeanCompletionS), duration(b.LeastS),
			duration(b.QueueS)))
	} else {
		out = append(out, fmt.Sprintf("No scheduler could have gone below a mean completion by weight of %s, which is "+
			"proved; it was %s, and %s with Hare.", duration(b.WeightedMeanS), duration(r.Happened.WeightedMeanS),
			duration(r.Online.WeightedMeanS)))
	}
	return out
}

// fair reports whether the simulation can be believed.
func (r *Report) fair() []string {
	out := []string{"The same simulation plays Slurm's own rule, first come, first served with backfill by time " +
		"limits. Where it comes out as the cluster did, the figures of Hare can be believed as far. Where it does " +
		"not, the cluster had other rules (priorities, limits of users, reservations, jobs without GPUs), and the " +
		"figures of Hare are to be compared with the better of both."}
	return append(out, upper(r.check())+".",
		"Hare against the simulated Slurm: mean completion "+r.SavedSimulated.Completion.sentence()+", mean wait "+
			r.SavedSimulated.Wait.sentence()+".",
		r.intervals())
}

// intervals says where the intervals come from.
func (r *Report) intervals() string {
	days := r.Saved.Completion.Days
	if days < leastDays {
		return fmt.Sprintf("There are no intervals: they come from drawing days again, and the window has %s with "+
			"submissions, of %d that are needed. Read more days.", words.Count(days, "day"), leastDays)
	}
	return fmt.Sprintf("The intervals come from drawing the %d days with submissions again, with replacement (seed %d). "+
		"Days follow each other, and what waits in the evening waits in the morning, so the intervals are too narrow "+
		"rather than too wide.", days, r.Seed)
}

// counted says which jobs the figures count.
func (r *Report) counted() []string {
	told := "Hare was told of each job, when it was released, the user's limit or estimate, user, account, name and " +
		"number of GPUs; of its length only that it still runs or has ended."
	if r.Coarse {
		told = "As there are many jobs, Hare was told of each only when it was released and on which types it may run; of " +
			"its length only, and coarsely, that it still runs or has ended. With limits, users and names it may do better."
	}
	return []string{
		told,
		fmt.Sprintf("Counted: %s.", words.Count(r.Jobs, "job")),
		fmt.Sprintf("Running when the window began: %s. They keep their GPUs in every simulation and are in no mean.",
			words.Count(r.RunningAtBegin, "job")),
		fmt.Sprintf("Waiting when the window began: %s. Their waits count from there.",
			words.Count(r.WaitingAtBegin, "job")),
		fmt.Sprintf("Still running when the log ended: %s. They count as if they had ended then, in every row alike: their "+
			"completions are too short in all rows, and the bound stays one.", words.Count(r.RunningAtEnd, "job")),
		fmt.Sprintf("Waiting when the log ended: %s. They are left out of every row: nobody knows how long they take. "+
			"A scheduler that had started them would have had less room for the others.", words.Count(r.WaitingAtEnd, "job")),
	}
}

func (r *Report) rowTable() web.Table {
	t := web.Table{Words: 1, Heads: []string{"", "mean wait", "p95 wait", "mean completion", "p95 completion",
		"above the bound", "checked"}}
	for _, x := range r.rows() {
		checked := "yes"
		if !x.row.Verified {
			checked = "no"
		}
		t.Rows = append(t.Rows, []string{x.name, duration(x.row.MeanWaitS), duration(x.row.P95WaitS),
			duration(x.row.MeanCompletionS), duration(x.row.P95CompletionS), fractionText(x.row.AboveBound, false), checked})
	}
	bound := "–"
	if r.Bound.MeanCompletionS != nil {
		bound = duration(*r.Bound.MeanCompletionS)
	}
	t.Rows = append(t.Rows, []string{"no scheduler below", "", "", bound, duration(r.Bound.P95CompletionS), "",
		"certified"})
	return t
}

func (r *Report) userTable() web.Table {
	t := web.Table{Words: 1, Heads: []string{"user", "jobs", "mean completion as it was", "with Hare", "hours saved",
		"jobs earlier", "jobs later"}}
	for i, u := range r.Users {
		if len(r.Users) > maxUsers && i >= maxUsers/2 && i < len(r.Users)-maxUsers/2 {
			if i == maxUsers/2 {
				t.Rows = append(t.Rows, []string{words.Count(len(r.Users)-maxUsers, "user") + " between these", "", "", "", "",
					"", ""})
			}
			continue
		}
		t.Rows = append(t.Rows, []string{u.User, fmt.Sprint(u.Jobs), duration(u.HappenedS), duration(u.OnlineS),
			number(u.Hours), fmt.Sprint(u.Gain), fmt.Sprint(u.Pay)})
	}
	return t
}

func (r *Report) jobTable(jobs []JobRow) *web.Table {
	if len(jobs) == 0 {
		return nil
	}
	t := &web.Table{Words: 3, Heads: []string{"job", "user", "name", "GPUs", "submitted", "ran", "on", "with Hare", "on",
		"ends earlier by"}}
	at := func(s float64) string {
		return time.UnixMicro(r.OriginUs + int64(math.Round(s*1e6))).UTC().Format("01-02 15:04")
	}
	for _, j := range jobs {
		t.Rows = append(t.Rows, []string{j.ID, j.User, j.Name, fmt.Sprint(j.GPUs), at(j.ReleaseS),
			at(j.HappenedS) + " to " + at(j.HappenedEndS), j.HappenedTypes, at(j.OnlineS) + " to " + at(j.OnlineEndS),
			j.OnlineTypes, change(j.HappenedEndS - j.OnlineEndS)})
	}
	return t
}

// usersWho counts the users whose jobs together end over a minute earlier, and those whose jobs end over a
// minute later.
func (r *Report) usersWho() (gain, pay int) {
	for i := range r.Users {
		switch minutes := 60 * r.Users[i].Hours; {
		case minutes > 1:
			gain++
		case minutes < -1:
			pay++
		}
	}
	return gain, pay
}

func (r *Report) idleTable() web.Table {
	t := web.Table{Words: 2, Heads: []string{"", "type", "held", "slower", "no job", "order", "fragmented", "narrow"}}
	percent := func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
	for _, x := range []struct {
		name string
		all  []Idle
	}{{"as it was", r.Losses.Happened}, {"Hare", r.Losses.Online}} {
		for _, i := range x.all {
			t.Rows = append(t.Rows, []string{x.name, i.Type, percent(i.Held), percent(i.Slower), percent(i.NoJob),
				percent(i.Order), percent(i.Fragmented), percent(i.Narrow)})
		}
	}
	return t
}

func (r *Report) hourTable() web.Table {
	t := web.Table{Words: 1, Heads: []string{""}}
	for _, g := range r.GPUs {
		t.Heads = append(t.Heads, g.Type)
	}
	for _, x := range r.rows() {
		row := []string{x.name}
		for _, h := range x.row.GPUHours {
			row = append(row, number(h.Hours))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// notes are what was assumed and left out.
func (r *Report) notes() []pageNotes {
	var out []pageNotes
	for _, x := range []struct {
		head  string
		notes []history.Note
	}{{"Assumed", r.Source.Assumed}, {"Left out", r.Source.LeftOut}, {"Doubtful", r.Source.Doubtful},
		{"Set aside, not read", r.Source.SetAside}} {
		if len(x.notes) == 0 {
			continue
		}
		t := web.Table{Words: 1, Heads: []string{"what", "how often", "first"}}
		for _, n := range x.notes {
			t.Rows = append(t.Rows, []string{n.What, fmt.Sprint(n.Count), n.First})
		}
		out = append(out, pageNotes{x.head, t})
	}
	return out
}

// checks says how an engineer can check the page.
func (r *Report) checks() []string {
	out := []string{
		"hare shadow … --record proof/ writes the instance and each schedule of the table. " +
			"hare verify proof/instance.json proof/hindsight.result.json checks every start, " +
			"and the certificate of the bound, by code that shares nothing with what made them; so does verify/hare_verify.py.",
		"The same files, options and version give the same page.",
		fmt.Sprintf("The bound on the sum of weight × completion is %s s (method %s).", r.Bound.Total, r.Bound.Method),
	}
	for _, x := range r.rows() {
		if !x.row.Verified {
			out = append(out, fmt.Sprintf("The schedule of the row “%s” is not accepted: %s", x.name, x.row.Refused))
		}
		if x.row.Lost > 0 {
			out = append(out, fmt.Sprintf("In the row “%s”, %s ended because a node left service, and began again.",
				x.name, words.Count(x.row.Lost, "task")))
		}
	}
	return out
}

// bars draws the mean completions and the bound.
func (r *Report) bars() (template.HTML, error) {
	unit, name := 3600.0, "hours"
	switch longest := max(r.Happened.MeanCompletionS, r.Slurm.MeanCompletionS, r.Online.MeanCompletionS); {
	case longest < 100:
		unit, name = 1, "seconds"
	case longest < 6000:
		unit, name = 60, "minutes"
	}
	p := plot.Bars{Mark: math.NaN(), Legend: name}
	for _, x := range r.rows() {
		p.Bars = append(p.Bars, plot.Bar{Name: x.name, Value: x.row.MeanCompletionS / unit,
			Note: duration(x.row.MeanCompletionS)})
	}
	if r.Bound.MeanCompletionS != nil {
		p.Mark = *r.Bound.MeanCompletionS / unit
		p.Legend += "; the line is what no scheduler can go below"
	}
	var b bytes.Buffer
	err := p.SVG(&b, plot.Options{Title: "Mean time from submission to end", Width: 900})
	return template.HTML(b.String()), err // SVG has escaped all texts
}

// queue draws how many jobs wait, over the window.
func (r *Report) queue() (template.HTML, error) {
	var b bytes.Buffer
	unit, name := 1.0, "hours"
	switch hours := r.WindowS / 3600; {
	case hours < 3:
		unit, name = 60, "minutes"
	case hours > 72:
		unit, name = 1./24, "days"
	}
	l := &plot.Lines{X: name + " since the window began", Legend: "jobs that wait"}
	for _, c := range r.queues {
		c.Points = slices.Clone(c.Points)
		for i := range c.Points {
			c.Points[i].X *= unit
		}
		l.Curves = append(l.Curves, c)
	}
	err := l.SVG(&b, plot.Options{Title: "The queue", Width: 900})
	if errors.Is(err, plot.ErrNoLines) {
		return "", nil
	}
	return template.HTML(b.String()), err // SVG has escaped all texts
}

// cdf draws the distributions of completion times.
func (r *Report) cdf() (template.HTML, error) {
	var b bytes.Buffer
	title := "Share of jobs that ended within a time after submission"
	err := plot.CDF(&b, r.samples, plot.Options{Title: title, Width: 900})
	if errors.Is(err, plot.ErrNoSample) {
		return "", nil
	}
	return template.HTML(b.String()), err // CDF has escaped all texts
}

// upper begins a sentence.
func upper(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// number writes a figure with about three digits.
func number(x float64) string {
	if math.Abs(x) >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}
