package slurm

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// commentNote is what the helper adds to a comment: when the plan starts the job, and a time before which
// the job cannot end. It has no blanks, since the commands that scontrol reads from its standard input
// end words there.
var commentNote = regexp.MustCompile(`\[hare-plan:starts=([0-9TZ:-]+)(?:,ends-after=([0-9TZ:-]+))?\]$`)

// maxComment limits the comments that the helper writes.
const maxComment = 1000

// ownComment is a comment without the helper's note; noted says that it had one.
func ownComment(comment string) (own string, noted bool) {
	at := commentNote.FindStringIndex(comment)
	if at == nil {
		return comment, false
	}
	return comment[:at[0]], true
}

// mayNote reports whether the helper may add a note to a comment: one that begins as those of jobs that take
// part, or none. Where scontrol would take the comment for several words, it stays as it is.
func (h *Helper) mayNote(own string) bool {
	return (own == "" || strings.HasPrefix(own, h.cfg.OptIn)) && len(own) < maxComment &&
		!strings.ContainsFunc(own, func(r rune) bool { return r <= ' ' || r == '\'' || r == '\\' || r == 0x7f }) &&
		strings.Count(own, `"`)%2 == 0
}

// predict returns the update that notes in an entry's comment when the plan starts it. A note stands while the
// start moves by less than a tenth of the time until then, or a minute, and the time before which the
// job cannot end is not earlier than noted.
func (h *Helper) predict(r *Record, a entryAdvice, nowUs int64) (Update, bool) {
	own, _ := ownComment(r.Comment)
	if !h.mayNote(own) || a.startS < 0 {
		return Update{}, false
	}
	nowS := nowUs / 1e6
	note := "[hare-plan:starts=" + stamp(nowS+a.startS)
	if a.endS >= 0 {
		note += ",ends-after=" + stamp(nowS+a.endS)
	}
	note += "]"
	if stands := commentNote.FindStringSubmatch(r.Comment); stands != nil {
		start, err := time.Parse(time.RFC3339, stands[1])
		end, endErr := time.Parse(time.RFC3339, stands[2])
		moved := start.Unix() - nowS - a.startS
		promised := stands[2] != "" && (endErr != nil || a.endS < 0 || end.Unix() > nowS+a.endS)
		if err == nil && !promised && max(moved, -moved) <= max(60, a.startS/10) {
			return Update{}, false
		}
	}
	return Update{Job: r.ID, SubmitS: r.SubmitS, Field: "Comment", Old: r.Comment, New: own + note,
		Reason: a.reason(), own: own}, true
}

// unpredict returns the update that takes the note out of an entry's comment.
func unpredict(r *Record, reason string) (Update, bool) {
	own, noted := ownComment(r.Comment)
	return Update{Job: r.ID, SubmitS: r.SubmitS, Field: "Comment", Old: r.Comment, New: own, Reason: reason,
		own: own}, noted
}

// stamp is a time as notes have it.
func stamp(s int64) string { return time.Unix(s, 0).UTC().Format(time.RFC3339) }

// predictions returns the updates of comments: notes for the entries that are ordered, and none for those
// whose place in the plan is far behind.
func (h *Helper) predictions(s *State, chosen, behind []entryAdvice) (updates []Update) {
	if !h.cfg.Predict {
		return nil
	}
	for _, a := range chosen {
		if u, ok := h.predict(s.Records[a.entry], a, s.NowUs); ok {
			updates = append(updates, u)
		}
	}
	for _, a := range behind {
		if u, ok := unpredict(s.Records[a.entry], fmt.Sprintf("place %d in the plan is far away", a.place)); ok {
			updates = append(updates, u)
		}
	}
	return updates
}
