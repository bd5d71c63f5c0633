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
}

// readScontrolReservations reads what scontrol show reservation writes, with or without -o.
func (l *Log) readScontrolReservations(name string, in *bufio.Reader, loc *time.Location) error {
	t := &table{file: name, in: in}
	f := File{Name: name, Kind: "scontrol show reservation"}
	var r *slurmReservation
	place := Place{}
	finish := func() error {
		if r == nil {
			return nil
		}
		if err := l.addReservation(r, place); err != nil {
			return &RowError{place, err.Error()}
		}
		return nil
	}
	for {
		line, err := t.readLine()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			if key == "ReservationName" {
				if err := finish(); err != nil {
					return err
				}
				r, place = &slurmReservation{Name: value}, t.place()
				f.Rows++
				continue
			}
			if r == nil {
				return t.fault("%.40q stands before the first ReservationName: this is not what scontrol show reservation "+
					"writes", word)
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
				return t.fault("%s: %v", key, err)
			}
		}
	}
	if err := finish(); err != nil {
		return err
	}
	l.Report.Files = append(l.Report.Files, f)
	return nil
}

// addReservation adds a reservation. Nodes that are reserved for maintenance are out of service.
func (l *Log) addReservation(r *slurmReservation, place Place) error {
	nodes, err := expandHosts(r.NodeList)
	if err != nil {
		return err
	}
	from, until := int64(r.StartTime)*1e6, int64(r.EndTime)*1e6
	if from < 0 || until > maxTimeUs || until <= from {
		return errors.New("the reservation ends before it begins, or lies not between 1970 and 2199")
	}
	for _, flag := range r.Flags {
		if flag = strings.ToUpper(flag); flag != "MAINT" && flag != "MAINTENANCE" {
			continue
		}
		for _, name := range nodes {
			l.node(name).addDown(from, min(until, hare.Forever))
		}
		l.Report.assume("nodes reserved for maintenance are out of service", place)
		return nil
	}
	out := Reservation{Name: r.Name, Nodes: nodes, FromUs: from, UntilUs: until, Users: sortedList(r.Users),
		Accounts: sortedList(r.Accounts)}
	for _, list := range [][]string{out.Users, out.Accounts} {
		for _, name := range list {
			if strings.HasPrefix(name, "-") {
				l.Report.leaveOut("a reservation that names users or accounts who may not use the nodes", place)
				return nil
			}
		}
	}
	l.Reservations = append(l.Reservations, out)
	return nil
}
