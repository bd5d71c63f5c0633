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

// runStarter starts processes from one thread that lives as long as the pool, because
// the kernel sends the parent-death signal when the thread ends, not the process.
func (p *Pool) runStarter() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The loop may end when the pool closes: only startWorker sends requests, and the
	// workers of a closed pool are dead already.
	for {
		select {
		case r := <-p.starts:
			r.done <- r.w.cmd.Start()
		case <-p.closed:
			return
		}
	}
}

// replace kills w and starts a worker in its place, without waiting. It counts a restart
// at once, so that a caller who compares counters around a solve sees it.
func (p *Pool) replace(w *process, restart bool) {
	w.kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return // Close waits for the remaining processes
	}
	if restart {
		p.stats.Restarts++
	}
	p.slots.Go(func() {
		<-w.done
		p.startWorker()
	})
}

// startWorker starts one worker and makes it idle. It retries, with pauses, until it
// succeeds, the pool closes or there is no engine at all.
func (p *Pool) startWorker() {
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
			p.signalFirstStart()
			p.mu.Unlock()
			p.idle <- w
			return
		case p.isClosed():
			return
		}
		p.failed(w, err)
		none := errors.Is(err, ErrUnavailable) || errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
		p.mu.Lock()
		p.stats.Restarts++
		if none {
			p.breaker.noEngine(time.Now())
		}
		p.signalFirstStart()
		p.mu.Unlock()
		if none {
			return
		}
	}
}

// signalFirstStart must be called with p.mu held.
func (p *Pool) signalFirstStart() {
	select {
	case <-p.firstStart:
	default:
		close(p.firstStart)
	}
}

// launch starts a process and completes the handshake with it. If launch fails, the
// process has ended; it is returned for its stderr.
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
	if !p.register(w) {
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

// register records a started process and reaps it when it ends. After Close, register
// kills the process.
func (p *Pool) register(w *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[w] = struct{}{}
	p.slots.Go(func() {
		w.reap()
		p.mu.Lock()
		delete(p.live, w)
		p.mu.Unlock()
	})
	if p.closing {
		w.kill()
	}
	return !p.closing
}
