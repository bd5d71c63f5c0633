package lp

import (
	"errors"
	"io/fs"
	"os/exec"
	"runtime"
	"time"
)

type startRequest struct {
	w    *process
	done chan error
}

// runStarter starts processes from one thread that lives as long as the pool:
// the kernel's parent-death signal follows the thread, not the process.
func (p *Pool) runStarter() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// It ends after the last worker: only fill sends, and a closed pool's
	// workers are dead already.
	for {
		select {
		case r := <-p.starts:
			r.done <- r.w.cmd.Start()
		case <-p.closed:
			return
		}
	}
}

// replace kills w and fills its place, without waiting. It counts a restart at
// once, so that whoever compares counters around a solve sees it.
func (p *Pool) replace(w *process, restart bool) {
	w.kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return // Close waits for the processes that are left
	}
	if restart {
		p.stats.Restarts++
	}
	p.slots.Go(func() {
		<-w.done
		p.fill()
	})
}

// fill starts one worker and makes it idle. It tries again, with pauses, until
// it succeeds, the pool closes or there is no engine at all.
func (p *Pool) fill() {
	for {
		p.mu.Lock()
		pause := p.breaker.pause()
		p.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-p.closed:
			return
		}
		w, err := p.launch()
		switch {
		case err == nil:
			p.mu.Lock()
			p.stats.Starts++
			p.version = w.version
			p.wasTried()
			p.mu.Unlock()
			p.idle <- w
			return
		case p.isClosed():
			return
		}
		p.failed(w, err)
		p.count(func(s *Stats) { s.Restarts++; p.wasTried() })
		if errors.Is(err, ErrUnavailable) || errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			p.mu.Lock()
			p.breaker.noEngine(time.Now())
			p.mu.Unlock()
			return
		}
	}
}

// wasTried wants p.mu held.
func (p *Pool) wasTried() {
	select {
	case <-p.tried:
	default:
		close(p.tried)
	}
}

// launch starts a process and shakes hands with it. On an error the process is
// gone; it is returned for what it wrote.
func (p *Pool) launch() (*process, error) {
	w, err := newProcess(p.cfg.Command, p.env)
	if err != nil {
		return nil, &WorkerError{Op: "start", Err: err}
	}
	r := startRequest{w: w, done: make(chan error, 1)}
	select {
	case p.starts <- r:
	case <-p.closed:
		return nil, ErrClosed
	}
	if err := <-r.done; err != nil {
		return nil, &WorkerError{Op: "start", Err: err}
	}
	if !p.adopt(w) {
		<-w.done
		return nil, ErrClosed
	}
	timer := time.AfterFunc(p.cfg.StartTimeout, w.kill)
	err = w.handshake(p.cfg.MemoryBytes)
	if !timer.Stop() && err == nil {
		err = w.fail("start", errors.New("took too long"))
	}
	if err != nil {
		w.kill()
		<-w.done
		return w, err
	}
	return w, nil
}

// adopt registers a started process and has it reaped; after Close it kills it
// instead.
func (p *Pool) adopt(w *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[w] = struct{}{}
	p.slots.Go(func() {
		w.reap()
		p.mu.Lock()
		delete(p.live, w)
		p.mu.Unlock()
	})
	if p.shut {
		w.kill()
	}
	return !p.shut
}
