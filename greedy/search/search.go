// Package search looks for better plans: by annealing, by random keys, by both together, and by ruin and recreate.
package search
