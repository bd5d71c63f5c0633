package shadow

// QueueS returns the seconds that jobs wait in all, by row, as the picture of the queue has them.
func (r *Report) QueueS() (all []float64) {
	for _, c := range r.queues {
		sum := 0.0
		for _, p := range c.Points {
			sum += p.Y * r.WindowS / queueParts
		}
		all = append(all, sum)
	}
	return all
}
