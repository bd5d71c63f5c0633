package history

// Shared is the log as Build takes it: with the jobs joined that held parts of the same GPU.
func (l *Log) Shared() *Log {
	rep := *l.Report
	return l.sharing(&rep)
}
