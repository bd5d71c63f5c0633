package experiment

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
)

// unfinished is the file of a measurement that has not ended: a line of settings, then a line for each
// run that has.
type unfinished struct {
	mu   sync.Mutex
	file *os.File
	runs map[int]*endedRun // those of the file, by number
}

// settingsLine is the first line. Figures of other settings or of another version are not used.
type settingsLine struct {
	Experiment string `json:"experiment"`
	Version    string `json:"version"`
	Engine     string `json:"engine"`
	Scale      int    `json:"scale"`
	Repeat     int    `json:"repeat"`
	FirstSeed  uint64 `json:"first_seed"`
}

// endedRun is a run that has ended, with its figures or the reason why it cannot be.
type endedRun struct {
	Group   string       `json:"group"`
	Row     string       `json:"row"`
	Seed    uint64       `json:"seed"`
	Reason  string       `json:"reason,omitempty"`
	Figures []keptFigure `json:"figures,omitempty"`
}

// keptFigure is a figure; a Value of nil is not a number.
type keptFigure struct {
	Name   string   `json:"name"`
	Value  *float64 `json:"value"`
	Digits int      `json:"digits"`
}

func (r *endedRun) figures() []figure {
	var all []figure
	for _, f := range r.Figures {
		value := math.NaN()
		if f.Value != nil {
			value = *f.Value
		}
		all = append(all, figure{f.Name, value, f.Digits})
	}
	return all
}

// openUnfinished reads the runs of the file, if there is one, and keeps it open for further ones. A last
// line that was cut off is dropped.
func openUnfinished(cfg *Config, name string, runs []measured) (*unfinished, error) {
	u := &unfinished{runs: map[int]*endedRun{}}
	if cfg.Unfinished == "" {
		return u, nil
	}
	want := settingsLine{name, cfg.Solver.Version, cfg.Solver.EngineVersion, cfg.Scale, cfg.Repeat, cfg.FirstSeed}
	var err error
	if u.file, err = os.OpenFile(cfg.Unfinished, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return nil, err
	}
	length, err := u.read(&want, runs)
	if err == nil {
		err = u.file.Truncate(length)
	}
	if err == nil {
		_, err = u.file.Seek(length, 0)
	}
	if err == nil && length == 0 {
		err = u.write(&want)
	}
	if err != nil {
		return nil, errors.Join(err, u.file.Close())
	}
	return u, nil
}

// read returns the length of the whole lines.
func (u *unfinished) read(want *settingsLine, runs []measured) (int64, error) {
	type key struct {
		group, row string
		seed       uint64
	}
	number := map[key]int{}
	for i := range runs {
		number[key{runs[i].group, runs[i].row, runs[i].seed}] = i
	}
	length := int64(0)
	in := bufio.NewReader(u.file)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return length, nil // the end, or a line that was cut off
		}
		if line == 1 {
			var got settingsLine
			if json.Unmarshal(text, &got) != nil || got != *want {
				return 0, fmt.Errorf("%s keeps runs of other settings or of another version: give those settings to go "+
					"on with them, or remove the file", u.file.Name())
			}
		} else {
			var r endedRun
			if err := json.Unmarshal(text, &r); err != nil {
				return 0, fmt.Errorf("%s:%d: %w: remove the file to begin again", u.file.Name(), line, err)
			}
			if i, ok := number[key{r.Group, r.Row, r.Seed}]; ok {
				u.runs[i] = &r
			}
		}
		length += int64(len(text))
	}
}

func (u *unfinished) of(i int) (*endedRun, bool) {
	r, ok := u.runs[i]
	return r, ok
}

// add keeps a run that has ended.
func (u *unfinished) add(m *measured, found []figure, reason string) error {
	if u.file == nil {
		return nil
	}
	r := endedRun{Group: m.group, Row: m.row, Seed: m.seed, Reason: reason}
	for i := range found {
		k := keptFigure{Name: found[i].name, Digits: found[i].digits}
		if !math.IsNaN(found[i].value) {
			k.Value = &found[i].value
		}
		r.Figures = append(r.Figures, k)
	}
	return u.write(&r)
}

func (u *unfinished) write(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_, err = u.file.Write(append(text, '\n'))
	return err
}

func (u *unfinished) close() {
	if u.file != nil {
		_ = u.file.Close() // every line has been written
	}
}

// RemoveUnfinished removes the file of a measurement whose results have been written.
func RemoveUnfinished(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
