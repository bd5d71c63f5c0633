package history

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// slurmReservation holds the members of a reservation of scontrol show reservation, as text or --json.
type slurmReservation struct {
	Name      string      `json:"name"`
	StartTime slurmNumber `json:"start_time"`
	EndTime   slurmNumber `json:"end_time"`
	NodeList  string      `json:"node_list"`
	Users     string      `json:"users"`
	Accounts  string      `json:"accounts"`
	Flags     slurmTexts  `json:"flags"`

	unread bool
}

// readScontrolReservations reads what scontrol show reservation writes, with or without -o.
func (l *slurmReader) readScontrolReservations(name string, in *bufio.Reader, loc *time.Location) error {
	t := &table{file: name, in: in, line: l.skipped}
	f := File{Name: name, Kind: "scontrol show reservation"}
	var r *slurmReservation
	place := Place{}
	finish := func() {
		if r != nil {
			l.addReservation(r, place)
		}
	}
	for {
		line, err := t.readLine()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errLong) {
			l.Report.setAside("a line is too long: it is left out", t.place(), "")
			continue
		}
		if err != nil {
			return err
		}
		for i, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			if key == "ReservationName" && i == 0 {
				finish()
				r, place = &slurmReservation{Name: value}, t.place()
				f.Rows++
				continue
			}
			if r == nil {
				return t.fault("%.40q stands before the first ReservationName: this is not what scontrol show reservation "+
					"writes", word)
			}
			if key == "Comment" {
				break // what people write, to the end of the line
			}
			if value == "(null)" {
				continue
			}
			var us int64
			switch key {
			case "StartTime":
				us, err = parseTime(value, loc)
				r.StartTime = slurmNumber(us / 1e6)
			case "EndTime":
				us, err = parseTime(value, loc)
				r.EndTime = slurmNumber(us / 1e6)
			case "Nodes":
				r.NodeList = value
			case "Users":
				r.Users = value
			case "Accounts":
				r.Accounts = value
			case "Flags":
				r.Flags = strings.Split(value, ",")
			}
			if err != nil {
				l.Report.setAside(key+" of a reservation cannot be read: the reservation is left out", t.place(), value)
				r.unread, err = true, nil
			}
		}
	}
	finish()
	l.Report.Files = append(l.Report.Files, f)
	return nil
}

// addReservation adds a reservation. Nodes that are reserved for maintenance are out of service.
func (l *slurmReader) addReservation(r *slurmReservation, place Place) {
	if r.unread {
		return
	}
	nodes, err := expandHosts(r.NodeList)
	if err != nil {
		l.Report.setAside("nodes of a reservation cannot be read: the reservation is left out", place, r.NodeList)
		return
	}
	from, until := int64(r.StartTime)*1e6, int64(r.EndTime)*1e6
	if r.StartTime < 0 || r.EndTime > maxTimeUs/1e6 || until <= from {
		l.Report.setAside("a reservation ends before it begins, or lies not between 1970 and 2199: it is left out", place,
			r.Name)
		return
	}
	for _, flag := range r.Flags {
		if flag = strings.ToUpper(flag); flag != "MAINT" && flag != "MAINTENANCE" {
			continue
		}
		for _, name := range nodes {
			l.node(name).addDown(from, min(until, hare.Forever))
		}
		l.Report.assume("nodes reserved for maintenance are out of service", place)
		return
	}
	out := Reservation{Name: r.Name, Nodes: nodes, FromUs: from, UntilUs: until, Users: sortedList(r.Users),
		Accounts: sortedList(r.Accounts)}
	for _, list := range [][]string{out.Users, out.Accounts} {
		for _, name := range list {
			if strings.HasPrefix(name, "-") {
				l.Report.leaveOut("a reservation that names users or accounts who may not use the nodes", place)
				return
			}
		}
	}
	l.Reservations = append(l.Reservations, out)
}
